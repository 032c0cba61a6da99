//! Changes of files and of the directories that they are in, as inotify reports them.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use notify::event::{RemoveKind, RenameMode};
use tempfile::TempDir;

use super::*;

/// The time after which a change counts as not noticed.
const LIMIT: Duration = Duration::from_secs(10);

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

fn watch(file: &Path, files: &WritingFiles) -> (FileWatch, Receiver<()>) {
    let (reported, events) = mpsc::channel();
    let report = move || {
        // More events may come when the test is over.
        let _ = reported.send(());
    };
    (FileWatch::start(file, files, report).unwrap(), events)
}

fn watch_included(main: &Path, files: &WritingFiles) -> (IncludeWatch, Receiver<()>) {
    let (reported, events) = mpsc::channel();
    let report = move || {
        // More events may come when the test is over.
        let _ = reported.send(());
    };
    (IncludeWatch::start(&ConfigSources::read(main), files, report).unwrap(), events)
}

/// Waits for events until the condition is true, which is looked at after each.
#[track_caller]
fn wait_for(events: &Receiver<()>, what: &str, mut is_true: impl FnMut() -> bool) {
    loop {
        events.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{what}: it is not noticed"));
        if is_true() {
            return;
        }
    }
}

/// Puts files in the place of `file`, one after another, and expects an event for each.
#[track_caller]
fn expect_noticed(
    events: &Receiver<()>,
    file: &Path,
    what: &str,
    mut follow: impl FnMut() -> notify::Result<()>,
) {
    let (_dir, elsewhere) = dir_with(&[]);
    // More of them than there may be events of what happened before.
    for number in 0..20 {
        let text = format!("{what} {number}");
        fs::write(elsewhere.join("new"), &text).unwrap();
        fs::rename(elsewhere.join("new"), file).unwrap();
        wait_for(events, &text, || {
            follow().unwrap();
            fs::read_to_string(file).is_ok_and(|now| now == text)
        });
    }
}

/// Replaces a directory in each way. `follow` is called after each event.
#[track_caller]
fn replace_dir(
    dir: &Path,
    file: &Path,
    events: &Receiver<()>,
    mut follow: impl FnMut() -> notify::Result<()>,
) {
    let name = file.file_name().unwrap();
    let make = |dir: &Path| {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join(name), "new").unwrap();
    };
    expect_noticed(events, file, "it is as it was", &mut follow);
    fs::remove_dir_all(dir).unwrap();
    make(dir);
    expect_noticed(events, file, "it was made again", &mut follow);
    fs::remove_dir_all(dir).unwrap();
    wait_for(events, "it is gone", || {
        follow().unwrap();
        !dir.exists()
    });
    make(dir);
    expect_noticed(events, file, "it was missing", &mut follow);
    let (_other, elsewhere) = dir_with(&[]);
    make(&elsewhere.join("new"));
    fs::rename(dir, elsewhere.join("old")).unwrap();
    fs::rename(elsewhere.join("new"), dir).unwrap();
    expect_noticed(events, file, "another has its name", &mut follow);
}

#[test]
fn a_directory_that_is_replaced_is_watched_again() {
    let (_dir, dir) = dir_with(&[("etc/config.toml", "")]);
    let file = dir.join("etc/config.toml");
    let (mut watch, events) = watch(&file, &WritingFiles::default());
    replace_dir(&dir.join("etc"), &file, &events, || watch.follow());
}

#[test]
fn a_directory_that_a_link_leads_to_is_watched_again() {
    let (_dir, dir) = dir_with(&[("opt/real.toml", ""), ("etc/other.toml", "")]);
    symlink("../opt/real.toml", dir.join("etc/config.toml")).unwrap();
    let (mut watch, events) = watch(&dir.join("etc/config.toml"), &WritingFiles::default());
    replace_dir(&dir.join("opt"), &dir.join("opt/real.toml"), &events, || watch.follow());
}

#[test]
fn a_directory_of_included_files_is_watched_again() {
    let main = "include = [\"conf.d/*.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", main), ("conf.d/a.toml", "")]);
    let (mut watch, events) = watch_included(&dir.join("config.toml"), &WritingFiles::default());
    replace_dir(&dir.join("conf.d"), &dir.join("conf.d/a.toml"), &events, || watch.follow());
}

/// Links lead to links, and those to directories that do not exist yet.
#[test]
fn each_link_on_the_way_may_be_swapped() {
    let (_dir, dir) = dir_with(&[("v1/conf/real.toml", ""), ("v2/conf/real.toml", "")]);
    for name in ["etc", "srv/app"] {
        fs::create_dir_all(dir.join(name)).unwrap();
    }
    symlink("../srv/app/current/conf/real.toml", dir.join("etc/config.toml")).unwrap();
    symlink("../../v1", dir.join("srv/app/current")).unwrap();
    let file = dir.join("etc/config.toml");
    let (mut watch, events) = watch(&file, &WritingFiles::default());
    for version in ["v2", "v1", "v3"] {
        symlink(format!("../../{version}"), dir.join("srv/app/next")).unwrap();
        fs::rename(dir.join("srv/app/next"), dir.join("srv/app/current")).unwrap();
        let target = dir.join(version).join("conf/real.toml");
        wait_for(&events, version, || {
            watch.follow().unwrap();
            file.canonicalize().ok() == target.canonicalize().ok()
        });
        if version == "v3" {
            fs::create_dir(dir.join("v3")).unwrap();
            wait_for(&events, "the directory is there", || {
                watch.follow().unwrap();
                dir.join("v3").exists()
            });
            fs::create_dir(dir.join("v3/conf")).unwrap();
        }
        expect_noticed(&events, &target, version, || watch.follow());
    }
}

/// As config.toml -> real.toml in /etc/wayleave -> /opt/wl.
#[test]
fn a_file_next_to_a_link_in_a_linked_directory_is_watched() {
    let (_dir, dir) = dir_with(&[("opt/real.toml", "")]);
    symlink("opt", dir.join("etc")).unwrap();
    symlink("real.toml", dir.join("opt/config.toml")).unwrap();
    let files = WritingFiles::default();
    let (mut watch, events) = watch(&dir.join("etc/config.toml"), &files);
    expect_noticed(&events, &dir.join("etc/real.toml"), "replaced", || watch.follow());
    let mut writing = File::options().append(true).open(dir.join("etc/real.toml")).unwrap();
    writing.write_all(b"half").unwrap();
    wait_for(&events, "it is being written", || files.paths() == [dir.join("opt/real.toml")]);
    drop(writing);
    wait_for(&events, "it is closed", || files.is_empty());
}

/// As programs do that write to a file without a name first.
#[test]
fn a_file_that_gets_a_second_name_is_complete() {
    let main = "include = [\"conf.d/*.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", main), ("new", "text")]);
    fs::create_dir(dir.join("conf.d")).unwrap();
    let files = WritingFiles::default();
    let (_included, events) = watch_included(&dir.join("config.toml"), &files);
    fs::hard_link(dir.join("new"), dir.join("conf.d/a.toml")).unwrap();
    wait_for(&events, "an included file", || files.is_empty());
    let (_watch, events) = watch(&dir.join("missing.toml"), &files);
    fs::hard_link(dir.join("new"), dir.join("missing.toml")).unwrap();
    wait_for(&events, "the main file", || files.is_empty());
}

/// The kernel drops events that are not read in time, among them the one of the writer that closes the file.
#[test]
fn no_file_is_being_written_forever_after_events_are_lost() {
    let (_dir, dir) = dir_with(&[("config.toml", ""), ("a", ""), ("b", "")]);
    let file = dir.join("config.toml");
    let files = WritingFiles::default();
    // The thread that reads the events waits until the test takes this one.
    let (reported, events) = mpsc::sync_channel(0);
    let report = move || {
        // More events may come when the test is over.
        let _ = reported.send(());
    };
    let mut watch = FileWatch::start(&file, &files, report).unwrap();
    let mut writing = File::create(&file).unwrap();
    writing.write_all(b"half").unwrap();
    wait_for(&events, "it is being written", || !files.is_empty());
    // Again, so that the thread has an event to wait with.
    writing.write_all(b"half").unwrap();
    let queued = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    for _ in 0..queued.trim().parse::<usize>().unwrap() {
        for name in ["a", "b"] {
            File::open(dir.join(name)).unwrap();
        }
    }
    drop(writing);
    wait_for(&events, "nothing is written", || files.is_empty());
    expect_noticed(&events, &file, "it is watched again", || watch.follow());
}

#[test]
fn writers_in_a_directory_that_is_renamed_are_forgotten() {
    let main = "include = [\"conf.d/**/*.toml\"]";
    let (_dir, dir) = dir_with(&[("config.toml", main), ("conf.d/a/x.toml", "")]);
    let files = WritingFiles::default();
    let (_watch, events) = watch_included(&dir.join("config.toml"), &files);
    let mut writing = File::create(dir.join("conf.d/a/x.toml")).unwrap();
    writing.write_all(b"half").unwrap();
    wait_for(&events, "it is being written", || !files.is_empty());
    fs::rename(dir.join("conf.d/a"), dir.join("conf.d/b")).unwrap();
    wait_for(&events, "it is not watched there", || files.is_empty());
    drop(writing);
}

/// A link may lead elsewhere, or the file have another name, before its writer closes it.
#[test]
fn writers_of_a_file_that_is_no_longer_meant_are_forgotten() {
    let (_dir, dir) = dir_with(&[("one.toml", ""), ("two.toml", "")]);
    let file = dir.join("config.toml");
    symlink("one.toml", &file).unwrap();
    let files = WritingFiles::default();
    let (_watch, events) = watch(&file, &files);
    let write = |name: &str| {
        let mut writing = File::create(dir.join(name)).unwrap();
        writing.write_all(b"half").unwrap();
        wait_for(&events, name, || files.paths() == [dir.join(name)]);
        writing
    };
    let writing = write("one.toml");
    symlink("two.toml", dir.join("new")).unwrap();
    fs::rename(dir.join("new"), &file).unwrap();
    drop(writing);
    wait_for(&events, "the link leads elsewhere", || files.is_empty());
    let writing = write("two.toml");
    fs::rename(dir.join("two.toml"), dir.join("three.toml")).unwrap();
    wait_for(&events, "the file has another name", || files.is_empty());
    drop(writing);
}

/// A watch that is replaced does not see that the writer closes the file.
#[test]
fn files_that_are_being_written_are_forgotten_with_their_watch() {
    let (_dir, dir) = dir_with(&[]);
    let file = dir.join("config.toml");
    let files = WritingFiles::default();
    let (watch, events) = watch(&file, &files);
    let mut writing = File::create(&file).unwrap();
    writing.write_all(b"half").unwrap();
    wait_for(&events, "it is being written", || files.paths() == [file.as_path()]);
    drop(watch);
    // Until its thread has ended, which may be noting another event.
    while events.recv().is_ok() {}
    assert!(files.is_empty());
}

/// When its events arrive, the file may have been replaced for long.
#[test]
fn a_file_that_is_replaced_counts_whatever_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().canonicalize().unwrap().join("config.toml");
    fs::write(&file, "").unwrap();
    let mut watched = WatchedPath::new(file.clone());
    let of_file = |kind| Event::new(kind).add_path(file.clone());
    let created = of_file(EventKind::Create(CreateKind::File));
    assert_eq!(watched.classify(&created), None, "its writer has not closed it");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    let removed = of_file(EventKind::Remove(RemoveKind::File));
    assert_eq!(watched.classify(&removed), Some(FileChange::Complete));
    assert_eq!(watched.classify(&created), Some(FileChange::Complete));
}

/// The event of our own read may arrive after a link was swapped.
#[test]
fn any_event_after_a_link_swap_reports_it_once() {
    let dir = tempfile::tempdir().unwrap();
    let real = dir.path().canonicalize().unwrap();
    for version in ["..1", "..2"] {
        fs::create_dir(real.join(version)).unwrap();
        fs::write(real.join(version).join("config.toml"), "").unwrap();
    }
    let data = real.join("..data");
    let file = real.join("config.toml");
    symlink("..1", &data).unwrap();
    symlink("..data/config.toml", &file).unwrap();
    let mut watched = WatchedPath::new(file);
    let opened = EventKind::Access(AccessKind::Open(AccessMode::Any));
    let opened = Event::new(opened).add_path(real.join("..1/config.toml"));
    assert_eq!(watched.classify(&opened), None);
    fs::remove_file(&data).unwrap();
    symlink("..2", &data).unwrap();
    assert_eq!(watched.classify(&opened), Some(FileChange::Complete));
    let swapped = Event::new(EventKind::Modify(ModifyKind::Name(RenameMode::To))).add_path(data);
    assert_eq!(watched.classify(&swapped), None);
}
