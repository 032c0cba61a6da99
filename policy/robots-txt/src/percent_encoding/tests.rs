use proptest::prelude::*;

use super::*;

fn text<T>(push: impl FnOnce(&mut Vec<u8>) -> T) -> String {
    let mut form = b"kept".to_vec();
    push(&mut form);
    String::from_utf8(form.split_off(4)).unwrap()
}

#[test]
fn each_form_writes_octets_its_way() {
    for (value, expected) in [
        ("/%7ejoe/%41%2d%2E%5F", "/~joe/A-._"),
        ("/a%2fb%3f%2A", "/a%2Fb%3F%2A"),
        ("/\u{30C4} <|>\"", "/%E3%83%84%20%3C%7C%3E%22"),
        ("/a*b$c?d=e&f[g]", "/a*b$c?d=e&f[g]"),
        ("/100%/%zz/%4", "/100%25/%25zz/%254"),
        ("/%%341", "/%2541"),
        ("/%4%31", "/%2541"),
        ("/%25%34%31", "/%2541"),
    ] {
        let normalised = text(|form| NORMALISED.push(form, value.as_bytes()));
        assert_eq!(normalised, expected, "{value}");
    }
    let literal = text(|form| LITERAL.push(form, b"/a*b%2Ac$%24"));
    assert_eq!(literal, "/a*b*c$$");
    assert_eq!(text(|form| DECODED.push(form, b"/a%2fb%2Fc%41%zz")), "/a%2Fb%2FcA%zz");
    let google = text(|form| GOOGLE.push(form, "/%7e%2fa\u{e9}*%".as_bytes()));
    assert_eq!(google, "/%7E%2Fa%C3%A9*%");
}

#[test]
fn an_escape_begun_at_an_open_end_or_a_star_is_kept() {
    for (value, open, closed) in [
        ("/%zz%4", "/%25zz%4", "/%25zz%254"),
        ("/%%", "/%25%", "/%25%25"),
        ("/%41%", "/A%", "/A%25"),
        ("/%g", "/%25g", "/%25g"),
        ("%", "%", "%25"),
        ("%%4", "%25%4", "%25%254"),
        ("%4*%41*%*%g*%4", "%4A%%25g%4", "%4A%%25g%254"),
    ] {
        for (is_open, expected) in [(true, open), (false, closed)] {
            let push = |form: &mut Vec<u8>| {
                LITERAL.push_pattern_literals(form, value.as_bytes(), is_open, |_| {});
            };
            assert_eq!(text(push), expected, "{value}");
        }
    }
    let push = |form: &mut Vec<u8>| {
        DECODED.push_pattern_literals(form, b"/%4", true, |_| {});
    };
    assert_eq!(text(push), "/%4");
}

#[test]
fn stars_are_reported_and_not_encoded() {
    let mut stars = Vec::new();
    let mut form = b"kept".to_vec();
    let value = "/*\u{e9}**%7e*";
    LITERAL.push_pattern_literals(&mut form, value.as_bytes(), true, |star| stars.push(star));
    assert_eq!(stars, [1, 7, 7, 8]);
    assert_eq!(form, b"kept/%C3%A9~");
}

#[test]
fn lone_percent_signs_are_reported() {
    for (text, expected) in [
        ("/a%20", false),
        ("/a%", true),
        ("/%2", true),
        ("/%zz%20", true),
        ("/%%20", true),
        ("/%25", false),
    ] {
        let text = text.as_bytes();
        assert_eq!(LITERAL.push(&mut Vec::new(), text), expected);
        assert_eq!(has_lone_percent(text), expected);
    }
}

#[test]
fn a_path_may_match_the_start_of_an_encoded_pattern() {
    let values = ["/%7eA%2f", "/\u{e9}%4", "/a$%", "/a*b", "/%g", "", "/%zz"];
    for form in [&LITERAL, &GOOGLE, &DECODED] {
        for value in values.map(str::as_bytes) {
            let part = value.split(|&byte| byte == b'*').next().unwrap();
            let mut path = Vec::new();
            form.push_pattern_literals(&mut path, part, true, |_| {});
            assert!(form.may_match_start(&path, value, true), "{form:?} {value:?}");
            path.extend(b"25/more");
            assert!(form.may_match_start(&path, value, true), "{form:?} {value:?}");
            assert!(value.is_empty() || !form.may_match_start(b"x", value, true));
        }
    }
    assert!(!LITERAL.may_match_start(b"/~B", b"/%7eA*", true));
    assert!(DECODED.may_match_start(b"/a*bc", b"/%61*b", false));
    assert!(!DECODED.may_match_start(b"/abc", b"/%61*b", false));
}

proptest! {
    #[test]
    fn writing_twice_changes_nothing(value in "/([%0-9A-Fa-f*$~é/]|\\PC){0,20}") {
        for form in [&NORMALISED, &LITERAL, &GOOGLE] {
            let once = text(|out| form.push(out, value.as_bytes()));
            prop_assert_eq!(&text(|out| form.push(out, once.as_bytes())), &once);
        }
    }
}
