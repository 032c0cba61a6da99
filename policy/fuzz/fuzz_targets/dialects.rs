//! The dialects agree on files whose meaning their texts agree about: one group with plain rules of one kind.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wayleave_robots_txt::{
    AccessResult, AccessVerdict, Dialect, ProductToken, RobotsTxt, UrlPath, decide,
    decide_all_spellings,
};

fuzz_target!(|input: &[u8]| {
    let mut parts = input.split(|&byte| byte == b'\n').map(|part| {
        let plain = |byte: &&u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
        let text: Vec<u8> = part.iter().filter(plain).copied().collect();
        format!("/{}", String::from_utf8(text).expect("filtered to ASCII"))
    });
    let path = parts.next().unwrap_or_default();
    let mut body = "User-agent: foobot\n".to_owned();
    for value in parts.take(200) {
        body += &format!("Disallow: {value}\n");
    }
    let access = AccessResult::Successful(RobotsTxt::parse(body.as_bytes()));
    let tokens = [ProductToken::new("foobot").expect("a name")];
    let verdict =
        |dialect| decide(&access, dialect, &tokens, &UrlPath::parse(&path).unwrap()).verdict();
    let expected = verdict(Dialect::Rfc9309);
    if path != "/robots.txt" {
        for &dialect in Dialect::ALL {
            assert_eq!(verdict(dialect), expected, "{dialect}");
        }
    }
    let strict =
        decide_all_spellings(&access, Dialect::Rfc9309, &tokens, &UrlPath::parse(&path).unwrap())
            .verdict();
    assert!(expected == AccessVerdict::Allow || strict == AccessVerdict::Disallow);
});
