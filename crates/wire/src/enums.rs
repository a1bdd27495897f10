//! Enums of which there is a list.

/// Declares an enum and `ALL`, the list of its values. Where each value has a text behind `=>`, declares `name`, too.
#[macro_export]
macro_rules! listed {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$doc:meta])* $value:ident $(= $number:expr)?),+ $(,)? }) => {
        $(#[$attribute])*
        pub enum $name { $($(#[$doc])* $value $(= $number)?),+ }

        impl $name {
            /// All values, in their order.
            pub const ALL: [Self; [$(Self::$value),+].len()] = [$(Self::$value),+];
        }
    };
    ($(#[$attribute:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $value:ident $(= $number:expr)? => $text:literal),+ $(,)?
    }) => {
        $crate::listed! { $(#[$attribute])* pub enum $name { $($(#[$doc])* $value $(= $number)?),+ } }

        impl $name {
            /// The name that stands in options, tables and JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$value => $text),+ }
            }
        }
    };
}
