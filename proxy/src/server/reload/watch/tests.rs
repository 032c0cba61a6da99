//! Changes of files and of the directories that they are in, as inotify reports them.

use std::fs::{self, File};
use std::io::Write as _;
use std::iter;
use std::os::unix::fs::symlink;

use tempfile::TempDir;
use wayleave_config::ConfigSources;

use super::*;

/// Returns a directory, by its name without links, in which the pairs of file and text are.
fn dir_with(files: &[(&str, &str)]) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    for (name, text) in files {
        let file = real.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    (dir, real)
}

fn follow(watch: &mut ConfigWatch, main: &Path) -> bool {
    watch.follow(|| ConfigSources::read(main).watch_list(iter::once(main)))
}

fn watch(main: &Path) -> ConfigWatch {
    let mut watch = ConfigWatch::default();
    assert!(follow(&mut watch, main));
    assert_eq!(watch.fault(), None);
    watch
}

/// Expects that what happened is a reason to look, and looks.
#[track_caller]
fn expect_reason(watch: &mut ConfigWatch, main: &Path, what: &str) {
    assert!(watch.read_events(), "{what}");
    follow(watch, main);
    watch.read_events();
}

/// Puts another file in the place of `file`, and then text into it.
#[track_caller]
fn expect_watched(watch: &mut ConfigWatch, main: &Path, file: &Path, what: &str) {
    let (_dir, elsewhere) = dir_with(&[("new", "text")]);
    fs::rename(elsewhere.join("new"), file).unwrap();
    expect_reason(watch, main, &format!("{what}: a file in its place"));
    let mut writing = File::create(file).unwrap();
    writing.write_all(b"half").unwrap();
    assert!(watch.read_events(), "{what}: a write");
    assert_eq!(watch.writing().len(), 1, "{what}");
    drop(writing);
    expect_reason(watch, main, &format!("{what}: its end"));
    assert!(watch.writing().is_empty(), "{what}");
}

/// Replaces a directory in each way.
#[track_caller]
fn replace_dir(watch: &mut ConfigWatch, main: &Path, dir: &Path, file: &Path) {
    let make = |dir: &Path| {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join(file.file_name().unwrap()), "").unwrap();
    };
    expect_watched(watch, main, file, "it is as it was");
    fs::remove_dir_all(dir).unwrap();
    make(dir);
    expect_reason(watch, main, "it was made again");
    expect_watched(watch, main, file, "it was made again");
    fs::remove_dir_all(dir).unwrap();
    expect_reason(watch, main, "it is gone");
    make(dir);
    expect_reason(watch, main, "it was missing");
    expect_watched(watch, main, file, "it was missing");
    let (_other, elsewhere) = dir_with(&[]);
    make(&elsewhere.join("new"));
    fs::rename(dir, elsewhere.join("old")).unwrap();
    fs::rename(elsewhere.join("new"), dir).unwrap();
    expect_reason(watch, main, "another has its name");
    expect_watched(watch, main, file, "another has its name");
}

#[tokio::test]
async fn a_directory_that_is_replaced_is_watched_again() {
    let (_dir, dir) = dir_with(&[("etc/config.toml", "")]);
    let main = dir.join("etc/config.toml");
    replace_dir(&mut watch(&main), &main, &dir.join("etc"), &main);
}

#[tokio::test]
async fn a_directory_that_a_link_leads_to_is_watched_again() {
    let (_dir, dir) = dir_with(&[("opt/real.toml", ""), ("etc/other.toml", "")]);
    let main = dir.join("etc/config.toml");
    symlink("../opt/real.toml", &main).unwrap();
    replace_dir(&mut watch(&main), &main, &dir.join("opt"), &dir.join("opt/real.toml"));
}

#[tokio::test]
async fn a_directory_of_included_files_is_watched_again() {
    let text = "include = [\"conf.d/*.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", text), ("conf.d/a.toml", "")]);
    let main = dir.join("config.toml");
    replace_dir(&mut watch(&main), &main, &dir.join("conf.d"), &dir.join("conf.d/a.toml"));
}

/// Each row: an item of `include`, directories and links that appear one after another, and a file that is included then.
#[tokio::test]
async fn directories_that_appear_later_are_watched() {
    for (pattern, made, file) in [
        ("teams/*.toml", ["teams", "teams/a"], "teams/k.toml"),
        ("org/teams/*.toml", ["org", "org/teams"], "org/teams/k.toml"),
        ("teams/*.toml", ["far", "teams>far"], "far/k.toml"),
        ("org/teams/*.toml", ["far/teams", "org>far"], "far/teams/k.toml"),
        ("org/teams/*.toml", ["org>far", "far/teams"], "far/teams/k.toml"),
        ("teams/*/k.toml", ["teams", "teams/a"], "teams/a/k.toml"),
        ("*/*/k.toml", ["teams", "teams/a"], "teams/a/k.toml"),
        ("*/k.toml", ["far/a", "teams>far/a"], "far/a/k.toml"),
        ("*/*/k.toml", ["far/a/b", "teams>far/a"], "far/a/b/k.toml"),
        ("teams/**/*.toml", ["teams", "teams/a/b"], "teams/a/b/k.toml"),
    ] {
        let (_dir, dir) = dir_with(&[("config.toml", &format!("include = [{pattern:?}]"))]);
        let main = dir.join("config.toml");
        let mut watch = watch(&main);
        for name in made {
            match name.split_once('>') {
                Some((link, target)) => symlink(target, dir.join(link)).unwrap(),
                None => fs::create_dir_all(dir.join(name)).unwrap(),
            }
            watch.read_events();
            follow(&mut watch, &main);
        }
        expect_watched(&mut watch, &main, &dir.join(file), &format!("{pattern}: {made:?}"));
    }
}

/// Links may lead to directories that have the same files.
#[tokio::test]
async fn each_link_on_the_way_to_included_files_may_be_swapped() {
    for (pattern, link) in
        [("teams/*.toml", "teams"), ("org/a/*.toml", "org"), ("*/a/k.toml", "org")]
    {
        let (_dir, dir) = dir_with(&[("config.toml", &format!("include = [{pattern:?}]"))]);
        let below = if link == "teams" { "k.toml" } else { "a/k.toml" };
        for version in ["..1", "..2"] {
            fs::create_dir_all(dir.join(version).join("a")).unwrap();
            fs::write(dir.join(version).join(below), "").unwrap();
        }
        symlink("..1", dir.join(link)).unwrap();
        let main = dir.join("config.toml");
        let mut watch = watch(&main);
        symlink("..2", dir.join("new")).unwrap();
        fs::rename(dir.join("new"), dir.join(link)).unwrap();
        expect_reason(&mut watch, &main, pattern);
        expect_watched(&mut watch, &main, &dir.join("..2").join(below), pattern);
    }
}

/// Links lead to links, and those to directories that do not exist yet.
#[tokio::test]
async fn each_link_on_the_way_may_be_swapped() {
    let (_dir, dir) = dir_with(&[("v1/conf/real.toml", ""), ("v2/conf/real.toml", "")]);
    for name in ["etc", "srv/app"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    symlink("../srv/app/current/conf/real.toml", dir.join("etc/config.toml")).unwrap();
    symlink("../../v1", dir.join("srv/app/current")).unwrap();
    let main = dir.join("etc/config.toml");
    let mut watch = watch(&main);
    for version in ["v2", "v1", "v3"] {
        symlink(format!("../../{version}"), dir.join("srv/app/next")).unwrap();
        fs::rename(dir.join("srv/app/next"), dir.join("srv/app/current")).unwrap();
        expect_reason(&mut watch, &main, version);
        if version == "v3" {
            fs::create_dir(dir.join("v3")).unwrap();
            expect_reason(&mut watch, &main, "the directory is there");
            fs::create_dir(dir.join("v3/conf")).unwrap();
            expect_reason(&mut watch, &main, "the one below is there");
        }
        let file = dir.join(version).join("conf/real.toml");
        expect_watched(&mut watch, &main, &file, version);
    }
}

/// As config.toml -> real.toml in /etc/wayleave -> /opt/wl.
#[tokio::test]
async fn a_file_next_to_a_link_in_a_linked_directory_is_watched() {
    let (_dir, dir) = dir_with(&[("opt/real.toml", "")]);
    symlink("opt", dir.join("etc")).unwrap();
    symlink("real.toml", dir.join("opt/config.toml")).unwrap();
    let main = dir.join("etc/config.toml");
    let mut watch = watch(&main);
    expect_watched(&mut watch, &main, &dir.join("etc/real.toml"), "it is watched");
    let mut writing = File::options().append(true).open(dir.join("etc/real.toml")).unwrap();
    writing.write_all(b"half").unwrap();
    assert!(watch.read_events());
    assert!(watch.writing().iter().eq([&dir.join("opt/real.toml")]));
}

/// As programs do that write to a file without a name first.
#[tokio::test]
async fn a_file_that_gets_a_second_name_is_complete() {
    let text = "include = [\"conf.d/*.toml\", \"gone.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", text), ("conf.d/b.toml", ""), ("new", "text")]);
    let main = dir.join("config.toml");
    let mut watch = watch(&main);
    for name in ["conf.d/a.toml", "gone.toml"] {
        fs::hard_link(dir.join("new"), dir.join(name)).unwrap();
        assert!(watch.read_events(), "{name}");
        assert!(watch.writing().is_empty(), "{name}");
    }
}

/// A file that is created has to be written first.
#[tokio::test]
async fn a_new_file_counts_when_its_writer_closes_it() {
    let text = "include = [\"conf.d/*.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", text), ("conf.d/b.toml", "")]);
    let main = dir.join("config.toml");
    let mut watch = watch(&main);
    let writing = File::create(dir.join("conf.d/a.toml")).unwrap();
    assert!(!watch.read_events());
    drop(writing);
    assert!(watch.read_events());
}

/// The kernel drops events that are not read in time, among them the one of the writer that closes the file.
#[tokio::test]
async fn no_file_is_being_written_forever_after_events_are_lost() {
    let (_dir, dir) = dir_with(&[("config.toml", ""), ("a", ""), ("b", "")]);
    let main = dir.join("config.toml");
    let mut watch = watch(&main);
    let mut writing = File::create(&main).unwrap();
    writing.write_all(b"half").unwrap();
    assert!(watch.read_events() && !watch.writing().is_empty());
    let queued = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    for _ in 0..queued.trim().parse::<usize>().unwrap() {
        for name in ["a", "b"] {
            File::options().write(true).open(dir.join(name)).unwrap();
        }
    }
    drop(writing);
    expect_reason(&mut watch, &main, "events were lost");
    assert!(watch.writing().is_empty());
    expect_watched(&mut watch, &main, &main, "it is watched still");
}

#[tokio::test]
async fn writers_in_a_directory_that_is_renamed_are_forgotten() {
    let text = "include = [\"conf.d/**/*.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", text), ("conf.d/a/x.toml", "")]);
    let mut watch = watch(&dir.join("config.toml"));
    let mut writing = File::create(dir.join("conf.d/a/x.toml")).unwrap();
    writing.write_all(b"half").unwrap();
    assert!(watch.read_events() && !watch.writing().is_empty());
    fs::rename(dir.join("conf.d/a"), dir.join("conf.d/b")).unwrap();
    assert!(watch.read_events() && watch.writing().is_empty());
}

/// A link may lead elsewhere, or the file have another name, before its writer closes it.
#[tokio::test]
async fn writers_of_a_file_that_is_no_longer_meant_are_forgotten() {
    let (_dir, dir) = dir_with(&[("one.toml", ""), ("two.toml", "")]);
    let main = dir.join("config.toml");
    symlink("one.toml", &main).unwrap();
    let mut watch = watch(&main);
    let write = |watch: &mut ConfigWatch, name: &str| {
        let mut writing = File::create(dir.join(name)).unwrap();
        writing.write_all(b"half").unwrap();
        assert!(watch.read_events() && watch.writing().contains(&dir.join(name)));
        writing
    };
    let first = write(&mut watch, "one.toml");
    symlink("two.toml", dir.join("new")).unwrap();
    fs::rename(dir.join("new"), &main).unwrap();
    assert!(watch.read_events() && !watch.writing().is_empty(), "the files decide where it leads");
    follow(&mut watch, &main);
    assert!(watch.writing().is_empty(), "the link leads elsewhere");
    let second = write(&mut watch, "two.toml");
    fs::rename(dir.join("two.toml"), dir.join("three.toml")).unwrap();
    assert!(watch.read_events() && watch.writing().is_empty(), "the file has another name");
    drop((first, second));
}

/// Whoever still writes to a file that was replaced is of no interest.
#[tokio::test]
async fn writers_of_a_file_that_was_replaced_are_forgotten() {
    let (_dir, dir) = dir_with(&[("config.toml", ""), ("new", "")]);
    let mut watch = watch(&dir.join("config.toml"));
    let mut writing = File::create(dir.join("config.toml")).unwrap();
    writing.write_all(b"half").unwrap();
    assert!(watch.read_events() && !watch.writing().is_empty());
    fs::rename(dir.join("new"), dir.join("config.toml")).unwrap();
    assert!(watch.read_events() && watch.writing().is_empty());
    writing.write_all(b"the rest").unwrap();
    assert!(!watch.read_events() && watch.writing().is_empty());
}

/// When its events are read, the file may have been replaced for long.
#[tokio::test]
async fn a_file_that_is_replaced_counts_whatever_takes_its_place() {
    let (_dir, dir) = dir_with(&[]);
    let main = dir.join("config.toml");
    let mut watch = watch(&main);
    drop(File::create(&main).unwrap());
    fs::remove_file(&main).unwrap();
    fs::create_dir(&main).unwrap();
    assert!(watch.read_events());
}

#[tokio::test]
async fn other_files_in_the_directory_are_no_reason() {
    let text = "include = [\"conf.d/*.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", text), ("conf.d/a.txt", ""), ("state/log", "")]);
    let mut watch = watch(&dir.join("config.toml"));
    for name in ["conf.d/a.txt", "new.toml", "state/log"] {
        fs::write(dir.join(name), "x").unwrap();
        assert!(!watch.read_events(), "{name}");
    }
}
