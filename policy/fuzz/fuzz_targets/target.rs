//! A target reads back as itself, and what is sent is what was given.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wayleave_robots_txt::{Origin, UrlScheme, Target, UrlPath};

fuzz_target!(|text: &str| {
    if let Ok(path) = UrlPath::of_url(text) {
        assert!(path.as_str().starts_with('/'));
        assert!(text.starts_with('/') || Target::parse(&text.replace(' ', "%20")).is_ok());
    }
    assert_eq!(UrlPath::parse(text).is_ok(), text == "*" || text.starts_with('/'));
    if let Ok(origin) = Origin::from_authority(UrlScheme::Https, text) {
        assert_eq!(Origin::parse(&origin.to_string()).as_ref(), Ok(&origin));
        assert!(origin.host().is_ascii());
        assert_eq!(origin.host(), origin.host().to_ascii_lowercase());
    }
    let Ok(target) = Target::parse(text) else { return };
    assert_eq!(Target::parse(&target.to_string()).as_ref(), Ok(&target));
    let sent = target.path().as_str();
    let given = text.split('#').next().expect("the first part");
    assert!(given.ends_with(sent) || given.ends_with(&sent[1..]), "{sent:?} of {text:?}");
    assert!(!sent.contains(['\r', '\n', ' ', '\0']));
    let whole = target.to_string();
    assert_eq!(UrlPath::of_url(&whole).expect("a URL").as_str(), sent);
});
