//! The contacts of a crawler.

/// The characters that end a word of a `User-Agent`, next to white space.
const SEPARATORS: &[char] = &['(', ')', '<', '>', '[', ']', ';', ',', '"', '\''];

/// Returns the URLs and the mail addresses in a `User-Agent`, or in the name of a crawler's owner, as URIs.
///
/// `ExampleBot/1.0 (+https://bot.example; bot@example.com)` has `https://bot.example` and `mailto:bot@example.com`.
#[must_use]
pub fn contacts(text: &str) -> Vec<String> {
    text.split(|c: char| c.is_whitespace() || SEPARATORS.contains(&c)).filter_map(contact).collect()
}

fn contact(word: &str) -> Option<String> {
    // "+" before a URL says that it is about the crawler, not the page that is fetched.
    let word = word.trim_start_matches('+');
    for scheme in ["https://", "http://"] {
        if let Some(rest) = word.strip_prefix(scheme) {
            return rest.starts_with(|c: char| c.is_ascii_alphanumeric()).then(|| word.to_owned());
        }
    }
    let address = word.strip_prefix("mailto:").unwrap_or(word);
    let (user, host) = address.split_once('@')?;
    let is_plain = |part: &str, others: &str| {
        part.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.as_bytes().contains(&byte))
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    // A product such as `Bot@2.0` is not an address: the last label of a host is not a number.
    let top = host.rsplit_once('.')?.1;
    let is_host = is_plain(host, "-.") && top.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_plain(user, "-_.+") && is_host).then(|| format!("mailto:{address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_mail_addresses_are_contacts() {
        for (text, expected) in [
            ("wayleave/0.1", &[][..]),
            ("ExampleBot/1.0 (+https://bot.example)", &["https://bot.example"]),
            (
                "Mozilla/5.0 (compatible; ExampleBot/1.0; +http://bot.example/b?c)",
                &["http://bot.example/b?c"],
            ),
            (
                "ExampleBot (https://bot.example; bot+web@bot.example)",
                &["https://bot.example", "mailto:bot+web@bot.example"],
            ),
            ("ExampleBot <mailto:a@b.example>, Libwww@2.0", &["mailto:a@b.example"]),
            ("news@bot.example", &["mailto:news@bot.example"]),
            ("the news team", &[]),
            ("https:// @ a@ @b.example a@localhost javascript:alert(1)@b.c", &[]),
        ] {
            assert_eq!(contacts(text), expected, "{text}");
        }
    }
}
