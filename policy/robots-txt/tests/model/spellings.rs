//! The spellings that one path has for servers, plainly: every choice of what servers do, in their order.

use std::collections::BTreeSet;

/// Returns all spellings of a path, itself among them; `normal` is the one in RFC 9309's normal form.
pub fn of(path: &str, normal: &str) -> BTreeSet<String> {
    let spelling = |whole: &str, choice: u32| {
        let does = |step: u32| choice & (1 << step) != 0;
        let query = whole.find('?').unwrap_or(whole.len());
        let mut path = whole[..query].to_owned();
        let query = &whole[query..];
        if does(0) {
            path = path.replace("%2F", "/").replace("%2f", "/");
        }
        if does(1) {
            for separator in ["%5C", "%5c", "\\"] {
                path = path.replace(separator, "/");
            }
        }
        if does(2) {
            path = without_parameters(&path);
        }
        while does(3) && path.contains("//") {
            path = path.replace("//", "/");
        }
        if does(4) {
            path = without_dots(&path);
        }
        while does(5) && path.contains("//") {
            path = path.replace("//", "/");
        }
        if does(6)
            && path.len() > 1
            && path.ends_with('/')
            && !whole[..whole.len() - query.len()].ends_with('/')
        {
            path.pop();
        }
        path + query
    };
    let choices =
        [path, normal].into_iter().flat_map(|whole| (0..1 << 7).map(move |choice| (whole, choice)));
    choices.map(|(whole, choice)| spelling(whole, choice)).collect()
}

fn without_parameters(path: &str) -> String {
    let mut is_parameter = false;
    path.chars()
        .filter(|c| {
            is_parameter = *c != '/' && (is_parameter || *c == ';');
            !is_parameter
        })
        .collect()
}

/// The loop of RFC 3986 §5.2.4, for paths that begin with `/`.
fn without_dots(path: &str) -> String {
    let plain = |segment: &str| match segment.to_ascii_lowercase().replace("%2e", ".").as_str() {
        "." => ".".to_owned(),
        ".." => "..".to_owned(),
        _ => segment.to_owned(),
    };
    let mut input = path.split('/').map(plain).collect::<Vec<_>>().join("/");
    let mut output = String::new();
    while !input.is_empty() {
        if input.starts_with("/./") {
            input.replace_range(..2, "");
        } else if input == "/." {
            input = "/".to_owned();
        } else if input.starts_with("/../") || input == "/.." {
            input = format!("/{}", input.get(4..).unwrap_or_default());
            output.truncate(output.rfind('/').unwrap_or(0));
        } else {
            let end = input[1..].find('/').map_or(input.len(), |at| at + 1);
            output += &input[..end];
            input.replace_range(..end, "");
        }
    }
    output
}
