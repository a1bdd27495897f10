//! Compiles the MEADcast router's eBPF program.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() {
    compile::compile("mead", "the MEADcast router");
}
