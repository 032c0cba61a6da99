//! Renders `docs/`, and the files that it links to, for the admin listener, as the table `documents.rs`: name, title, content.
//! Writes the reasons that refusals.md has for the page, as the module `refusals.js`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use wayleave_manual::{ManualPage, linked_sources, render, render_source, terms};

fn main() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    println!("cargo::rerun-if-changed={}", docs.display());
    let files = fs::read_dir(&docs).expect("docs/ is beside proxy/");
    let paths = files.map(|file| file.expect("an entry of docs/").path());
    let mut pages: BTreeMap<String, ManualPage> = BTreeMap::new();
    let mut sources: BTreeMap<String, PathBuf> = BTreeMap::new();
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let markdown = fs::read_to_string(&path).expect("a document is text");
        pages.insert(name(&path), render(&markdown));
        for path in linked_sources(&markdown).into_iter().map(|link| docs.join(link)) {
            let other = sources.insert(name(&path), path.clone());
            assert!(other.is_none_or(|other| other == path), "two linked files have one name");
        }
    }
    for (name, path) in sources {
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(&path).expect("a linked file is text");
        let page = render_source(&name, &text);
        pages.insert(name, page);
    }
    let mut table = String::from("&[\n");
    for (name, page) in pages {
        let _ = writeln!(table, "({name:?}, {:?}, {:?}),", page.title, page.html);
    }
    table.push_str("]\n");
    write("documents.rs", &table);
    let refusals = fs::read_to_string(docs.join("refusals.md")).expect("a document is text");
    let reasons = terms(&refusals, "reason");
    write("refusals.js", &format!("export const IN_REFUSALS = {reasons:?};\n"));
}

fn name(path: &Path) -> String {
    path.file_name().and_then(|name| name.to_str()).expect("a file's name is text").to_owned()
}

fn write(name: &str, text: &str) {
    let to = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it")).join(name);
    fs::write(to, text).expect("cargo's directory is writable");
}
