//! A plain model of the dialects: written to be read beside the texts, not to be fast.
//!
//! It takes nothing from the engine but the names of the dialects, so that the two can be compared
//! on files that nobody wrote.

pub mod questions;
mod spellings;

use wayleave_robots_txt::Dialect;

/// The verdict of the model: whether the path is allowed, and the line that decides, if any.
pub type Verdict = (bool, Option<u32>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelField {
    UserAgent,
    Allow,
    Disallow,
    Other,
}

struct ModelRule {
    line: u32,
    allow: bool,
    value: Vec<u8>,
}

#[derive(Default)]
struct ModelGroup {
    agents: Vec<Vec<u8>>,
    rules: Vec<ModelRule>,
}

/// In which form bytes compare.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelForm {
    /// Google's parser rewrites rules, and leaves paths alone.
    Google,
    /// Every escape decoded but `%2F`.
    Decoded,
    /// RFC 9309 section 2.2.2.
    Normal,
    /// As servers read: reserved bytes decoded, too, but for delimiters.
    Served,
}

/// The forms in which a dialect compares, its own first, then those in which it is asked strictly.
fn forms(dialect: Dialect) -> &'static [ModelForm] {
    match dialect {
        Dialect::Google => &[ModelForm::Google, ModelForm::Normal, ModelForm::Served],
        Dialect::Koster1996 | Dialect::Selfhtml => &[ModelForm::Decoded],
        _ => &[ModelForm::Normal, ModelForm::Served],
    }
}

/// Judges a path for a crawler's names in order of preference.
#[allow(dead_code, reason = "not all who share this ask")]
pub fn judge(body: &[u8], dialect: Dialect, names: &[&str], path: &str) -> Verdict {
    judge_in(forms(dialect)[0], body, dialect, names, path)
}

/// Judges a path in a dialect or, for `strictest`, in the first of the four that disallows it.
#[allow(dead_code, reason = "not all who share this ask")]
pub fn judge_in_any(body: &[u8], dialect: Dialect, names: &[&str], path: &str) -> Verdict {
    let mut verdicts = dialect.each().iter().map(|one| judge(body, *one, names, path));
    let standard = verdicts.next().expect("a dialect");
    if !standard.0 {
        return standard;
    }
    verdicts.find(|verdict| !verdict.0).unwrap_or(standard)
}

fn judge_in(form: ModelForm, body: &[u8], dialect: Dialect, names: &[&str], path: &str) -> Verdict {
    if path == "/robots.txt" && dialect != Dialect::Google {
        return (true, None);
    }
    let groups = groups(body, dialect);
    let Some(chosen) = choose(&groups, dialect, names) else {
        return (true, None);
    };
    let rules = chosen.into_iter().flat_map(|group| &group.rules);
    let compared = ModelPath { dialect, form, paths: path_forms(path, dialect, form) };
    match dialect {
        Dialect::Koster1996 | Dialect::Selfhtml => {
            let mut matching = rules.filter(|rule| !rule.value.is_empty());
            let first = matching.find(|rule| compared.length(rule).is_some());
            first.map_or((true, None), |rule| (rule.allow, Some(rule.line)))
        }
        _ => most_specific(rules, &compared),
    }
}

/// Whether a path is allowed in all spellings that it has, by each of some dialects.
#[allow(dead_code, reason = "not all who share this ask")]
pub fn allows_all_spellings(body: &[u8], dialects: &[Dialect], names: &[&str], path: &str) -> bool {
    let normal = normal_form(path.as_bytes(), false, false);
    let normal = String::from_utf8(normal).expect("the normal form is ASCII");
    path == "/robots.txt"
        || spellings::of(path, &normal).iter().all(|spelling| {
            dialects.iter().all(|&dialect| {
                let allows = |form: &ModelForm| judge_in(*form, body, dialect, names, spelling).0;
                forms(dialect).iter().all(allows)
            })
        })
}

/// Whether any reader takes a line for a rule that disallows.
#[allow(dead_code, reason = "not all who share this ask")]
pub fn disallows(line: &[u8]) -> bool {
    let mut read =
        [Dialect::Rfc9309, Dialect::Google].map(|dialect| statement(line, dialect)).into_iter();
    read.any(|field| field.is_some_and(|(field, _)| field == ModelField::Disallow))
}

fn most_specific<'a>(rules: impl Iterator<Item = &'a ModelRule>, compared: &ModelPath) -> Verdict {
    let mut best: Option<(usize, &ModelRule)> = None;
    for rule in rules {
        if rule.value.is_empty() && compared.dialect != Dialect::Google {
            continue;
        }
        let Some(length) = compared.length(rule) else {
            continue;
        };
        let beats = best.is_none_or(|(longest, other)| {
            length > longest || length == longest && rule.allow && !other.allow
        });
        if beats {
            best = Some((length, rule));
        }
    }
    best.map_or((true, None), |(length, rule)| (rule.allow || length == 0, Some(rule.line)))
}

fn groups(body: &[u8], dialect: Dialect) -> Vec<ModelGroup> {
    let records = matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml);
    let mut groups: Vec<ModelGroup> = Vec::new();
    let mut open = false;
    for (index, line) in split_lines(body, dialect).into_iter().enumerate() {
        if records && line.iter().all(|&byte| is_space(byte)) {
            open = false;
        }
        let Some((field, value)) = statement(&line, dialect) else {
            continue;
        };
        if field == ModelField::UserAgent {
            if !open || !groups.last().unwrap().rules.is_empty() {
                groups.push(ModelGroup::default());
                open = true;
            }
            groups.last_mut().unwrap().agents.push(value);
        } else if field != ModelField::Other && open {
            let line = index as u32 + 1;
            let allow = field == ModelField::Allow;
            groups.last_mut().unwrap().rules.push(ModelRule { line, allow, value });
        }
    }
    groups
}

fn split_lines(body: &[u8], dialect: Dialect) -> Vec<Vec<u8>> {
    let bom = [0xEF, 0xBB, 0xBF];
    let same = body.iter().zip(bom).take_while(|(byte, bom)| *byte == bom).count();
    let body = if same == 3 || dialect == Dialect::Google { &body[same..] } else { body };
    let mut lines = vec![Vec::new()];
    for (at, &byte) in body.iter().enumerate() {
        match byte {
            b'\n' if at > 0 && body[at - 1] == b'\r' => {}
            b'\n' | b'\r' => lines.push(Vec::new()),
            _ => lines.last_mut().unwrap().push(byte),
        }
    }
    // Nothing after the last line end is no line.
    if lines.last().unwrap().is_empty() {
        lines.pop();
    }
    lines
}

fn statement(line: &[u8], dialect: Dialect) -> Option<(ModelField, Vec<u8>)> {
    let google = dialect == Dialect::Google;
    let mut line = line.to_vec();
    if google {
        line.truncate(16_663);
        line = line.split(|&byte| byte == 0).next().unwrap().to_vec();
    }
    let line = trim(line.split(|&byte| byte == b'#').next().unwrap());
    let (name, value) = match line.iter().position(|&byte| byte == b':') {
        Some(colon) => (trim(&line[..colon]), trim(&line[colon + 1..])),
        None => {
            let gap = |byte: &u8| *byte == b' ' || *byte == b'\t';
            let words: Vec<&[u8]> = line.split(gap).filter(|word| !word.is_empty()).collect();
            match words[..] {
                [name, value] if google => (trim(name), trim(value)),
                _ => return None,
            }
        }
    };
    let name = name.to_ascii_lowercase();
    if name.is_empty() {
        return None;
    }
    let is = |known: &[&str]| {
        known.iter().any(|known| match google {
            true => name.starts_with(known.as_bytes()),
            false => name == known.as_bytes() && *known == known_exactly(known),
        })
    };
    let field = if is(&["user-agent", "useragent", "user agent"]) {
        ModelField::UserAgent
    } else if is(&["allow"]) {
        ModelField::Allow
    } else if is(&["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"]) {
        ModelField::Disallow
    } else {
        ModelField::Other
    };
    Some((field, value.to_vec()))
}

/// The spelling itself if it is the standard's, else something else.
fn known_exactly(name: &str) -> &str {
    match name {
        "user-agent" | "allow" | "disallow" => name,
        _ => "",
    }
}

fn choose<'a>(
    groups: &'a [ModelGroup],
    dialect: Dialect,
    names: &[&str],
) -> Option<Vec<&'a ModelGroup>> {
    let everyone = |value: &[u8]| {
        value == b"*"
            || dialect == Dialect::Google
                && value.len() > 1
                && value[0] == b'*'
                && is_space(value[1])
    };
    for name in names {
        let ranks: Vec<Option<usize>> = groups
            .iter()
            .map(|group| {
                let named = group.agents.iter().filter(|value| !everyone(value));
                named.filter_map(|value| rank(value, name, dialect)).max()
            })
            .collect();
        if let Some(best) = ranks.iter().flatten().max() {
            let is_best = |rank: &Option<usize>| *rank == Some(*best);
            let chosen = groups.iter().zip(&ranks).filter(|(_, rank)| is_best(rank));
            return Some(merge(chosen.map(|(group, _)| group).collect(), dialect));
        }
    }
    let all = groups.iter().filter(|group| group.agents.iter().any(|value| everyone(value)));
    let all: Vec<&ModelGroup> = all.collect();
    (!all.is_empty()).then(|| merge(all, dialect))
}

/// The drafts before RFC 9309 obey one record only.
fn merge(mut groups: Vec<&ModelGroup>, dialect: Dialect) -> Vec<&ModelGroup> {
    if matches!(dialect, Dialect::Koster1996 | Dialect::Selfhtml) {
        groups.truncate(1);
    }
    groups
}

fn rank(value: &[u8], name: &str, dialect: Dialect) -> Option<usize> {
    let value = value.to_ascii_lowercase();
    let name = name.to_ascii_lowercase().into_bytes();
    let before_slash =
        |text: &[u8]| text.split(|&byte| byte == b'/').next().unwrap().trim_ascii_end().to_vec();
    let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte == b'-';
    if dialect != Dialect::Google && (name.is_empty() || name == b"*") {
        return None;
    }
    match dialect {
        Dialect::Google => {
            let kept: Vec<u8> = value.into_iter().take_while(|&byte| letter(byte)).collect();
            (kept == name).then_some(1)
        }
        Dialect::Koster1996 => {
            let name = before_slash(&name);
            let holds = !name.is_empty() && value.windows(name.len()).any(|part| part == name);
            holds.then_some(1)
        }
        Dialect::Selfhtml => {
            let value = before_slash(&value);
            (!value.is_empty() && name.starts_with(&value)).then_some(value.len())
        }
        _ => {
            let rest = value.strip_prefix(name.as_slice())?;
            let ends = rest.first().is_none_or(|&byte| !letter(byte) && !byte.is_ascii_digit());
            ends.then_some(1)
        }
    }
}

/// A path in the forms in which it is compared.
struct ModelPath {
    dialect: Dialect,
    form: ModelForm,
    paths: Vec<Vec<u8>>,
}

impl ModelPath {
    /// A rule's length in its dialect if it matches the path in any of its forms.
    fn length(&self, rule: &ModelRule) -> Option<usize> {
        let value = &rule.value;
        if self.is_matched_by(value) {
            return Some(form_length(value, self.dialect));
        }
        let slash = value.iter().rposition(|&byte| byte == b'/')?;
        let names_index = value[slash..].starts_with(b"/index.htm");
        if self.dialect == Dialect::Google && rule.allow && names_index {
            let directory = [&value[..=slash], b"$"].concat();
            let matches = self.is_matched_by(&directory);
            return matches.then(|| form_length(&directory, self.dialect));
        }
        None
    }

    fn is_matched_by(&self, value: &[u8]) -> bool {
        let matches = |path: &Vec<u8>, as_is| matches(value, self.dialect, self.form, path, as_is);
        let with_cut_escapes = self.paths.get(1);
        self.paths.iter().any(|path| matches(path, false))
            || with_cut_escapes.is_some_and(|path| matches(path, true))
    }
}

fn form_length(value: &[u8], dialect: Dialect) -> usize {
    if dialect == Dialect::Google {
        return google_form(value).len();
    }
    let anchored = value.ends_with(b"$");
    let body = value.strip_suffix(b"$").unwrap_or(value);
    let parts: Vec<&[u8]> = body.split(|&byte| byte == b'*').collect();
    let open = |index: usize| index + 1 < parts.len() || !anchored;
    let forms = parts.iter().enumerate().map(|(at, part)| normal_form(part, false, open(at)).len());
    forms.sum::<usize>() + parts.len() - 1 + usize::from(anchored)
}

/// Returns whether a value matches a path. `as_is`: cut escapes of both are left as they are.
fn matches(value: &[u8], dialect: Dialect, form: ModelForm, path: &[u8], as_is: bool) -> bool {
    if dialect == Dialect::Koster1996 {
        return path.starts_with(&decoded(value));
    }
    let (body, anchored) = match value.split_last() {
        Some((b'$', body)) => (body, true),
        _ => (value, false),
    };
    let last = body.iter().filter(|&&byte| byte == b'*').count();
    let mut in_query = false;
    let parts: Vec<Vec<u8>> = body
        .split(|&byte| byte == b'*')
        .enumerate()
        .map(|(index, part)| {
            let open = index < last || !anchored;
            // What stands behind a star may be a query.
            let was_in_query = in_query;
            in_query = true;
            match form {
                ModelForm::Google => google_form(part),
                ModelForm::Decoded => decoded(part),
                _ if as_is => part_with_cut_escapes(part, form, was_in_query, open),
                ModelForm::Normal => upper_case_begun(normal_form(part, true, open)),
                ModelForm::Served => upper_case_begun(served_part(part, true, was_in_query, open)),
            }
        })
        .collect();
    // The places in the path where the parts so far can end.
    let mut ends = vec![false; path.len() + 1];
    ends[0] = true;
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            let first = ends.iter().position(|&end| end).unwrap();
            ends[first..].fill(true);
        }
        let mut next = vec![false; path.len() + 1];
        for (start, _) in ends.iter().enumerate().filter(|(_, end)| **end) {
            if let Some(end) = end_of_part(part, form, path, start) {
                next[end] = true;
            }
        }
        if !next.contains(&true) {
            return false;
        }
        ends = next;
    }
    !anchored || ends[path.len()]
}

/// Where a part ends that matches at a place of a path. Its `%2A` and `%24` mean the octets, however the path spells
/// them (RFC 9309 §2.2.3).
fn end_of_part(part: &[u8], form: ModelForm, path: &[u8], start: usize) -> Option<usize> {
    let has_literal = matches!(form, ModelForm::Normal | ModelForm::Served);
    let mut part = part;
    let mut at = start;
    while !part.is_empty() {
        let raw = match part {
            [b'%', b'2', b'A', ..] => Some(b'*'),
            [b'%', b'2', b'4', ..] => Some(b'$'),
            _ => None,
        };
        if has_literal && raw.is_some() && path.get(at) == raw.as_ref() {
            part = &part[3..];
        } else if path.get(at) == part.first() {
            part = &part[1..];
        } else {
            return None;
        }
        at += 1;
    }
    Some(at)
}

/// The forms in which a path is compared. There are two for a path with an escape that has one digit only: a rule that ends
/// in such a one means itself, and the escapes that begin so.
fn path_forms(path: &str, dialect: Dialect, form: ModelForm) -> Vec<Vec<u8>> {
    let octets = path.as_bytes();
    match form {
        ModelForm::Google => vec![octets.to_vec()],
        ModelForm::Decoded if dialect == Dialect::Koster1996 => {
            vec![decoded(path.split('?').next().unwrap().as_bytes())]
        }
        ModelForm::Decoded => vec![decoded(octets)],
        ModelForm::Normal => vec![
            normal_form(octets, false, false),
            with_cut_escapes(octets, |octet, _| normal_form(octet, false, false)),
        ],
        ModelForm::Served => vec![
            served_part(octets, false, false, false),
            with_cut_escapes(octets, |octet, in_query| served_part(octet, false, in_query, false)),
        ],
    }
}

/// A text as servers read it: its path, then from the first `?` on its query.
fn served_part(part: &[u8], literal: bool, in_query: bool, open: bool) -> Vec<u8> {
    let normal = normal_form(part, literal, open);
    let mut in_query = in_query;
    let mut form = Vec::new();
    let mut at = 0;
    // A `%` that the normal form left alone is no escape, and begins none that could be decoded.
    while at < normal.len() {
        let escape = normal.get(at..at + 3).filter(|escape| escape[0] == b'%');
        let decoded = escape.and_then(|escape| {
            let digits = std::str::from_utf8(&escape[1..]).ok()?;
            u8::from_str_radix(digits, 16).ok()
        });
        in_query |= normal[at] == b'?';
        let delimiters: &[u8] = if in_query { b"/?#&=+;*$" } else { b"/?#*$" };
        let reserved = |byte: &u8| b":/?#[]@!$&'()*+,;=".contains(byte);
        match decoded.filter(|byte| reserved(byte) && !delimiters.contains(byte)) {
            Some(byte) => {
                form.push(byte);
                at += 3;
            }
            None => {
                form.push(normal[at]);
                at += 1;
            }
        }
    }
    form
}

fn part_with_cut_escapes(part: &[u8], form: ModelForm, in_query: bool, open: bool) -> Vec<u8> {
    let (body, end) = match part.strip_suffix(b"%") {
        Some(body) if open => (body, &b"%"[..]),
        _ => (part, &b""[..]),
    };
    let write = |octet: &[u8], after_query| match form {
        ModelForm::Served => served_part(octet, true, in_query || after_query, false),
        _ => normal_form(octet, true, false),
    };
    [&*with_cut_escapes(body, write), end].concat()
}

/// The digits of escapes have no case, nor has that of one begun at the end.
fn upper_case_begun(mut part: Vec<u8>) -> Vec<u8> {
    if let [.., b'%', digit] = &mut *part {
        digit.make_ascii_uppercase();
    }
    part
}

fn with_cut_escapes(path: &[u8], write: impl Fn(&[u8], bool) -> Vec<u8>) -> Vec<u8> {
    let octets = octets(path);
    let is_digit = |at: usize| octets.get(at).is_some_and(|octet| octet.0.is_ascii_hexdigit());
    let mut form = Vec::new();
    let mut in_query = false;
    for (index, &(byte, escaped)) in octets.iter().enumerate() {
        in_query |= (byte, escaped) == (b'?', false);
        let has_digit = is_digit(index + 1) && !octets[index + 1].1;
        if (byte, escaped) == (b'%', false) && has_digit && !is_digit(index + 2) {
            form.push(byte);
            continue;
        }
        let as_written = match escaped {
            true => escape(byte),
            false => vec![byte],
        };
        // One octet at a time, a lone `%` is no escape whatever follows.
        form.extend(write(&as_written, in_query));
    }
    form
}

/// The octets of a text: value, and whether it was escaped.
fn octets(text: &[u8]) -> Vec<(u8, bool)> {
    let mut octets = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        let digits = digits.filter(|two| two.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match digits.filter(|_| text[at] == b'%') {
            Some(digits) => {
                octets.push((u8::from_str_radix(digits, 16).unwrap(), true));
                at += 3;
            }
            None => {
                octets.push((text[at], false));
                at += 1;
            }
        }
    }
    octets
}

fn escape(byte: u8) -> Vec<u8> {
    format!("%{byte:02X}").into_bytes()
}

fn google_form(text: &[u8]) -> Vec<u8> {
    let form = |(byte, escaped): (u8, bool)| {
        if escaped || byte >= 0x80 { escape(byte) } else { vec![byte] }
    };
    octets(text).into_iter().flat_map(form).collect()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let form = |(byte, escaped)| {
        if escaped && byte == b'/' { b"%2F".to_vec() } else { vec![byte] }
    };
    octets(text).into_iter().flat_map(form).collect()
}

/// RFC 9309 §2.2.2; with `literal` also `*` and `$` escaped, as between the stars of a rule. If the
/// text is open, more may follow it, so an escape begun at its end stays as it is.
fn normal_form(text: &[u8], literal: bool, open: bool) -> Vec<u8> {
    let octets = octets(text);
    let mut form: Vec<u8> = Vec::new();
    for (index, &(byte, escaped)) in octets.iter().enumerate() {
        let unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let reserved = b":/?#[]@!$&'()*+,;=".contains(&byte) && !escaped;
        let special = literal && b"*$".contains(&byte);
        let begun = open
            && (byte, escaped) == (b'%', false)
            && match &octets[index + 1..] {
                [] => true,
                [(digit, false)] => digit.is_ascii_hexdigit(),
                _ => false,
            };
        if unreserved || reserved && !special || begun {
            form.push(byte);
        } else {
            form.extend(escape(byte));
        }
    }
    form
}

fn trim(mut text: &[u8]) -> &[u8] {
    while text.first().is_some_and(|&byte| is_space(byte)) {
        text = &text[1..];
    }
    while text.last().is_some_and(|&byte| is_space(byte)) {
        text = &text[..text.len() - 1];
    }
    text
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || (9..=13).contains(&byte)
}
