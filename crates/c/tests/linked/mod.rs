//! Compiles and runs programs of C.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// The folder with the libraries for C.
pub fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// Compiles a program, with a library as the linker's arguments.
pub fn compile(source: &Path, into: &Path, library: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new("cc")
        .args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg("-I")
        .arg(folder.join("include"))
        .arg(source)
        .args(library)
        .args(["-lpthread", "-ldl", "-lm"])
        .arg("-o")
        .arg(into)
        .output()
        .expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The program of this source, linked with the shared library.
pub fn linked(source: &Path, folder: &Path) -> PathBuf {
    let program = folder.join(source.file_stem().unwrap());
    let libraries = libraries().display().to_string();
    compile(source, &program, &["-L", &libraries, "-ltreecast_c", &format!("-Wl,-rpath,{libraries}")]);
    program
}

pub fn start(program: &Path, arguments: &[impl AsRef<OsStr>]) -> Child {
    let mut command = Command::new(program);
    // Cargo's path has older libraries of other builds before the one that the program was linked to.
    command.env_remove("LD_LIBRARY_PATH");
    command.args(arguments).stdout(Stdio::piped()).spawn().expect("the program runs")
}

pub fn succeed(program: Child) -> Vec<u8> {
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    output.stdout
}

pub fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("treecast-c-").tempdir().unwrap()
}
