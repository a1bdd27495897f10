//! Programs of other languages, for tests: C is compiled, and Python gets its package.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// A program in one of the languages.
pub struct Program {
    /// Language and name, for messages and folders.
    pub label: String,
    pub command: Vec<PathBuf>,
    /// The folder with Python's package. `None` for other programs.
    pub package: Option<PathBuf>,
}

impl Program {
    pub fn start(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        // Cargo's path has older libraries of other builds before the one that the program was linked to.
        command.env_remove("LD_LIBRARY_PATH");
        if let Some(package) = &self.package {
            command.env("PYTHONPATH", package).env("PYTHONDONTWRITEBYTECODE", "1");
        }
        command.spawn().unwrap_or_else(|error| panic!("{}: {error}", self.label))
    }
}

/// The folder of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo has put what it has built: libraries in `deps`, programs in `examples`.
pub fn built() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(2).unwrap().to_owned()
}

/// Makes Python's package out of its sources and the module that cargo has built.
pub fn package(folder: &Path) -> PathBuf {
    let package = folder.join("package");
    let into = package.join("treecast");
    fs::create_dir_all(&into).unwrap();
    for entry in
        fs::read_dir(here().join("python/treecast")).unwrap().flatten().filter(|entry| entry.path().is_file())
    {
        fs::copy(entry.path(), into.join(entry.file_name())).unwrap();
    }
    fs::copy(built().join("deps/lib_treecast.so"), into.join("_treecast.abi3.so")).unwrap();
    package
}

pub fn python() -> PathBuf {
    std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into()).into()
}

/// Compiles a program of C into this folder.
pub fn compiled(source: &Path, folder: &Path) -> PathBuf {
    let (program, libraries) = (folder.join(source.file_stem().unwrap()), built().join("deps"));
    let output = Command::new("cc")
        .args(["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-I"])
        .arg(here().join("../c/include"))
        .arg(source)
        .arg(format!("-L{}", libraries.display()))
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-ltreecast_c", "-o"])
        .arg(&program)
        .output()
        .expect("cc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}
