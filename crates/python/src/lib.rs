//! The library `treecast` for Python: the module `treecast._treecast`, which the package `treecast` exports.
//!
//! This crate only translates. Whatever waits lets other threads of Python run, and looks for signals several times a second, so
//! that Ctrl-C works. Before Python ends, the functions of the program that sessions call have ended ([`gate`]). `python/treecast/_treecast.pyi` has the types.

mod discovery;
mod error;
mod gate;
mod group;
mod options;
mod receiver;
mod standing;
mod wait;

use pyo3::prelude::*;

#[pymodule]
fn _treecast(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("TreecastError", module.py().get_type::<error::TreecastError>())?;
    module.add_class::<group::CarouselOptions>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<group::GroupEvent>()?;
    module.add_class::<group::GroupProgress>()?;
    module.add_class::<group::GroupReport>()?;
    module.add_class::<group::Delivery>()?;
    module.add_class::<group::Transfer>()?;
    module.add_class::<receiver::Offer>()?;
    module.add_class::<receiver::Receiver>()?;
    module.add_class::<receiver::ReceiverEvent>()?;
    module.add_class::<receiver::ReceiverProgress>()?;
    module.add_class::<receiver::ReceiverReport>()?;
    module.add_class::<discovery::Announced>()?;
    module.add_class::<standing::Standing>()?;
    module.add_class::<standing::StandingEvent>()?;
    module.add_class::<standing::StandingRule>()?;
    module.add_function(wrap_pyfunction!(discovery::ask_code, module)?)?;
    module.add_function(wrap_pyfunction!(discovery::discover, module)?)?;
    gate::register(module)
}
