//! Renders `docs/` for the admin listener, as the table `documents.rs`: name, title, content.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    println!("cargo::rerun-if-changed={}", docs.display());
    let files = fs::read_dir(&docs).expect("docs/ is beside proxy/");
    let paths = files.map(|file| file.expect("an entry of docs/").path());
    let mut documents: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect();
    documents.sort();
    let mut table = String::from("&[\n");
    for path in documents {
        let markdown = fs::read_to_string(&path).expect("a document is text");
        let page = wayleave_manual::render(&markdown);
        let name = path.file_name().and_then(|name| name.to_str()).expect("its name is text");
        let _ = writeln!(table, "({name:?}, {:?}, {:?}),", page.title, page.html);
    }
    table.push_str("]\n");
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join("documents.rs");
    fs::write(to, table).expect("cargo's directory is writable");
}
