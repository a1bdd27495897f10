//! Compiles the lab's eBPF program.

#[path = "../../bpf/compile.rs"]
mod compile;

fn main() {
    compile::compile("loss", "the lab's loss program");
}
