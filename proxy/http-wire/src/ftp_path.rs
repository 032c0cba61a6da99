//! Paths and credentials of `ftp:` URLs (RFC 1738 section 3.2), in the form in which they are safe to send to a server.

/// Returns the path as the server gets it: without percent-encoding, with each byte as a character up to U+00FF.
///
/// # Errors
///
/// If the server could read another path than the one that was judged. That is so for a line ending, which would
/// start another command; for a query, which FTP does not have; and for patterns, which servers expand to other
/// names.
pub fn decode(path: &str) -> Result<String, &'static str> {
    let name = decode_as_latin1(path);
    if path.contains('?') {
        return Err("an ftp: URL has no query; write a \"?\" in a name as %3F");
    }
    refuse_control_characters(&name)?;
    if name.contains(['*', '?', '[', '{']) {
        return Err("a name that servers read as a pattern (* ? [ {) in an ftp: URL");
    }
    Ok(name)
}

/// Checks that user name and password of an `ftp:` URL can be sent to a server.
///
/// # Errors
///
/// If they contain a control character, which could start another command.
pub fn check_credentials(target: &str) -> Result<(), &'static str> {
    let (user, password) = credentials(target).unwrap_or_default();
    refuse_control_characters(&user).and_then(|()| refuse_control_characters(&password))
}

fn refuse_control_characters(name: &str) -> Result<(), &'static str> {
    // 255 starts a Telnet command, and FTP's control connection is Telnet.
    if name.chars().any(|c| c.is_ascii_control() || c == '\u{ff}') {
        return Err("a control character in an ftp: URL");
    }
    Ok(())
}

/// Returns user name and password of an `ftp:` URL as it was received. Invalid percent-encoding is taken literally.
pub fn credentials(target: &str) -> Option<(String, String)> {
    let (_, rest) = target.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user_info, _) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    (!user.is_empty()).then(|| (decode_as_latin1(user), decode_as_latin1(password)))
}

/// Decodes percent-encoding, with each byte as a character up to U+00FF.
fn decode_as_latin1(text: &str) -> String {
    percent_encoding::percent_decode_str(text).map(char::from).collect()
}

/// Returns the target without user name and password, for logs.
pub fn without_credentials(target: &str) -> String {
    let Some((scheme, rest)) = target.split_once("://") else {
        return target.to_owned();
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // The last `@`, so that a password that contains one does not remain.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_byte_by_byte() {
        assert_eq!(decode("/a%20b/%E9.txt").as_deref(), Ok("/a b/\u{e9}.txt"));
        assert_eq!(decode("/pub/;type=i").as_deref(), Ok("/pub/;type=i"));
    }

    #[test]
    fn ambiguous_paths_are_refused() {
        for path in [
            "/a%0d%0aDELE%20b",
            "/a%00",
            "/a%0a",
            "/a?b",
            "/a%3Fb",
            "/p*",
            "/%7Bprivate,a%7D",
            "/%5Ba-z%5D",
            "/%FF%F4",
            "/%7f",
        ] {
            assert!(decode(path).is_err(), "{path}");
        }
    }

    #[test]
    fn credentials_are_found_before_the_host() {
        let found = credentials("ftp://us%40er:p%2Fw@files.test/a@b");
        assert_eq!(found, Some(("us@er".to_owned(), "p/w".to_owned())));
        assert_eq!(credentials("ftp://files.test/a@b"), None);
        let logged = without_credentials("ftp://user:secret@files.test:21/a@b?c");
        assert_eq!(logged, "ftp://files.test:21/a@b?c");
    }
}
