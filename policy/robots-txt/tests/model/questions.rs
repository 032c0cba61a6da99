//! Questions about a file: the names that it mentions, and paths that its rules are about.

/// The names on lines that some reader may take for user-agent lines, however they are spelt.
#[allow(dead_code, reason = "not all who share this ask")]
pub fn names_in(body: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in lines(body) {
        let is_agent = line.to_ascii_lowercase().starts_with("user");
        let Some((_, value)) = line.split_once([':', ' ']) else {
            continue;
        };
        let value = value.trim_start_matches([':', ' ']).trim();
        let name = value.split(['#', '\0']).next().unwrap_or_default().trim();
        if is_agent && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

/// Paths that begin as the rules of a file do, and a few that no rule is about.
#[allow(dead_code, reason = "not all who share this ask")]
pub fn paths_in(body: &[u8]) -> Vec<String> {
    let mut paths = vec!["/".to_owned(), "/q".to_owned(), "/robots.txt".to_owned()];
    for line in lines(body) {
        let Some(start) = line.find('/') else {
            continue;
        };
        let value = line[start..].split(['#', '\0']).next().unwrap_or_default().trim();
        paths.push(value.replace('*', "x").replace('$', ""));
        paths.push(format!("{}y", value.replace('*', "")));
    }
    // A path holds no white space; the model joins the two parts of such an escape.
    let joined = ["%7%44", "%%", "%2%30"];
    paths.retain(|path| {
        let is_visible = path.chars().all(|c| !c.is_whitespace() && !c.is_control());
        is_visible && path.len() <= 128 && !joined.iter().any(|part| path.contains(part))
    });
    paths.sort_unstable();
    paths.dedup();
    paths
}

fn lines(body: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(body);
    text.split(['\n', '\r']).map(|line| line.trim_start_matches('\u{FEFF}').to_owned()).collect()
}
