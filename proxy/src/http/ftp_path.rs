//! Paths of `ftp:` URLs (RFC 1738 section 3.2): what may be asked of a server, and as what.

/// The bytes of a path without percent-encoding, as characters up to U+00FF: what the server is given.
///
/// # Errors
///
/// Says what the server could read differently from what was judged: a line's end, which would be another command; a query, which
/// FTP does not have; and patterns, which servers expand to other names.
pub(crate) fn decoded(path: &str) -> Result<String, &'static str> {
    let name = characters(path);
    if path.contains('?') {
        return Err("an ftp: URL has no query; write a \"?\" in a name as %3F");
    }
    is_without_control(&name)?;
    if name.contains(['*', '?', '[', '{']) {
        return Err("a name that servers take for a pattern (* ? [ {) in an ftp: URL");
    }
    Ok(name)
}

/// Whether user name and password of an `ftp:` URL can be given to a server.
///
/// # Errors
///
/// As for a path: another command could begin in them.
pub(crate) fn check_credentials(target: &str) -> Result<(), &'static str> {
    let (user, password) = credentials(target).unwrap_or_default();
    is_without_control(&user).and_then(|()| is_without_control(&password))
}

fn is_without_control(name: &str) -> Result<(), &'static str> {
    // 255 begins a command of Telnet, which FTP is spoken over.
    match name.chars().any(|c| c.is_ascii_control() || c == '\u{ff}') {
        true => Err("a control character in an ftp: URL"),
        false => Ok(()),
    }
}

/// User name and password of an `ftp:` URL as it was received; what was not encoded as it should be counts as it is.
pub(crate) fn credentials(target: &str) -> Option<(String, String)> {
    let (_, rest) = target.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user_info, _) = authority.rsplit_once('@')?;
    let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    (!user.is_empty()).then(|| (characters(user), characters(password)))
}

/// A character up to U+00FF for each byte without percent-encoding.
fn characters(text: &str) -> String {
    percent_encoding::percent_decode_str(text)
        .map(char::from)
        .collect()
}

/// The same target without user name and password, to be written down.
pub(crate) fn without_credentials(target: &str) -> String {
    let Some((scheme, rest)) = target.split_once("://") else {
        return target.to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end]
        .rsplit_once('@')
        .map_or(&rest[..end], |(_, host)| host);
    format!("{scheme}://{host}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_given_byte_for_byte() {
        assert_eq!(decoded("/a%20b/%E9.txt").as_deref(), Ok("/a b/\u{e9}.txt"));
        assert_eq!(decoded("/pub/;type=i").as_deref(), Ok("/pub/;type=i"));
    }

    #[test]
    fn what_a_server_could_read_differently_is_refused() {
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
            assert!(decoded(path).is_err(), "{path}");
        }
    }

    #[test]
    fn credentials_stand_before_the_host() {
        let found = credentials("ftp://us%40er:p%2Fw@files.test/a@b");
        assert_eq!(found, Some(("us@er".to_owned(), "p/w".to_owned())));
        assert_eq!(credentials("ftp://files.test/a@b"), None);
        let told = without_credentials("ftp://user:secret@files.test:21/a@b?c");
        assert_eq!(told, "ftp://files.test:21/a@b?c");
    }
}
