//! The words of a `User-Agent` field that are not the crawler's name.

/// The names of browsers and of their parts.
const BROWSERS: &[&str] = &[
    "applewebkit",
    "build",
    "camino",
    "chrome",
    "chromium",
    "configuration",
    "crios",
    "edg",
    "edga",
    "edge",
    "edgios",
    "electron",
    "epiphany",
    "firefox",
    "fxios",
    "galeon",
    "gecko",
    "icecat",
    "iceweasel",
    "iemobile",
    "khtml",
    "konqueror",
    "like",
    "minefield",
    "mmp",
    "mobile",
    "mozilla",
    "msie",
    "navigator",
    "netscape",
    "opera",
    "opios",
    "opr",
    "presto",
    "profile",
    "qtwebengine",
    "release",
    "safari",
    "samsungbrowser",
    "seamonkey",
    "tablet",
    "thunderbird",
    "trident",
    "ucbrowser",
    "up.browser",
    "vendorid",
    "version",
    "vivaldi",
    "webkit",
    "yabrowser",
];

/// The names of operating systems, processors and languages, and the words around them.
const PLATFORMS: &[&str] = &[
    "aarch64",
    "amd64",
    "android",
    "arm",
    "arm64",
    "armv7l",
    "centos",
    "cfnetwork",
    "charset",
    "compatible",
    "cpu",
    "cros",
    "darwin",
    "debian",
    "fedora",
    "freebsd",
    "gentoo",
    "i",
    "i386",
    "i586",
    "i686",
    "intel",
    "ipad",
    "iphone",
    "ipod",
    "java",
    "linux",
    "mac",
    "mac_powerpc",
    "macintosh",
    "media",
    "n",
    "netbsd",
    "nintendo",
    "nt",
    "openbsd",
    "os",
    "perl",
    "php",
    "playstation",
    "ppc",
    "python",
    "redhat",
    "ruby",
    "rv",
    "series60",
    "sunos",
    "suse",
    "sv1",
    "symbianos",
    "touch",
    "u",
    "ubuntu",
    "unix",
    "unknown",
    "via",
    "win",
    "win32",
    "win64",
    "win95",
    "win98",
    "windows",
    "winnt",
    "wow64",
    "wv",
    "x11",
    "x64",
    "x86_64",
];

/// The beginnings of platform words that a version follows without a delimiter.
const PLATFORM_PREFIXES: &[&str] = &["compatibl", ".net", "infopath", "rv:", "slcc"];

/// The makers of devices and networks whose model names follow.
const DEVICES: &[&str] = &[
    "blackberry",
    "docomo",
    "j-phone",
    "kddi",
    "nokia",
    "samsung",
    "softbank",
    "sonyericsson",
    "vodafone",
];

/// The libraries that name themselves before the program that uses them.
const LIBRARIES: &[&str] = &[
    "apache-httpclient",
    "axios",
    "curl",
    "go-http-client",
    "guzzlehttp",
    "http.rb",
    "libcurl",
    "libwww-perl",
    "node-fetch",
    "okhttp",
    "python-requests",
    "python-urllib",
    "requests",
    "urllib3",
];

/// Words for any crawler, which name none by themselves.
const GENERIC: &[&str] =
    &["bot", "bots", "crawl", "crawler", "robot", "robots", "spider", "webcrawler"];

/// Returns whether a name is that of a browser, a device or a platform.
pub(super) fn is_environment(name: &str) -> bool {
    let folded = name.to_ascii_lowercase();
    BROWSERS.contains(&&*folded)
        || PLATFORMS.contains(&&*folded)
        || PLATFORM_PREFIXES.iter().any(|start| folded.starts_with(start))
        || DEVICES.iter().any(|maker| {
            let model = folded.strip_prefix(*maker);
            model.is_some_and(|model| !model.starts_with(|c: char| c.is_ascii_alphabetic()))
        })
        || !folded.contains(char::is_alphabetic)
}

/// Returns whether a word has the form of a language tag, such as `en` or `pt-BR`.
pub(super) fn is_language(word: &str) -> bool {
    let language = word.split(['-', '_']).next().unwrap_or_default();
    let region = word.get(language.len() + 1..).unwrap_or("US");
    let is_alphabetic = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic());
    language.len() == 2
        && (2..=3).contains(&region.len())
        && is_alphabetic(language)
        && is_alphabetic(region)
}

pub(super) fn is_library(name: &str) -> bool {
    LIBRARIES.iter().any(|library| name.eq_ignore_ascii_case(library))
}

pub(super) fn is_generic(name: &str) -> bool {
    GENERIC.iter().any(|word| name.eq_ignore_ascii_case(word))
}

/// Returns whether a name looks like a crawler's.
pub(super) fn is_crawler_like(name: &str) -> bool {
    let folded = name.to_ascii_lowercase();
    ["bot", "crawl", "spider"].iter().any(|word| folded.contains(word))
}
