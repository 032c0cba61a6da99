//! `Proxy-Status` (RFC 9209), which states why the proxy answered instead of the origin.

/// Returns the value of `Proxy-Status`: `name; error=TYPE; next-hop="…"; details="…"` (RFC 9209 section 2). The texts
/// are structured strings (RFC 8941 section 3.3.3), in which anything but printable ASCII becomes `?`.
pub fn field_value(name: &str, error: &str, next_hop: Option<&str>, details: &str) -> String {
    let mut value = String::with_capacity(name.len() + details.len() + 64);
    for part in [name, "; error=", error] {
        value.push_str(part);
    }
    if let Some(next_hop) = next_hop {
        push_parameter(&mut value, "next-hop", next_hop);
    }
    push_parameter(&mut value, "details", details);
    value
}

fn push_parameter(value: &mut String, key: &str, text: &str) {
    for part in ["; ", key, "=\""] {
        value.push_str(part);
    }
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        value.push_str(text);
    } else {
        text.chars().for_each(|character| push_escaped(value, character));
    }
    value.push('"');
}

fn push_escaped(value: &mut String, character: char) {
    match character {
        '"' | '\\' => {
            value.push('\\');
            value.push(character);
        }
        ' '..='~' => value.push(character),
        '\u{2026}' => value.push_str("..."),
        _ => value.push('?'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_a_structured_string() {
        let value = field_value(
            "wayleave",
            "http_request_denied",
            Some("proxy.corp:3128"),
            "say \"no\"\\\n\u{e9}",
        );
        assert_eq!(
            value,
            r#"wayleave; error=http_request_denied; next-hop="proxy.corp:3128"; details="say \"no\"\\??""#
        );
    }
}
