//! Verdicts as workflow commands of GitHub Actions, which become annotations of a list of URLs.

use std::path::Path;

use wayleave_notation::harmless::escape_controls;

/// The weight of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Error,
    Warning,
    Notice,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// Formats a workflow command such as `::error file=urls.txt,line=3,title=Refused::https://shop.test/private`. Whatever the
/// texts contain, it is one command in one line.
pub(super) fn annotation(
    level: Level,
    place: Option<(&Path, usize)>,
    title: &str,
    message: &str,
) -> String {
    let place = place.map_or_else(String::new, |(file, line)| {
        format!("file={},line={line},", escape_property(&file.to_string_lossy()))
    });
    let level = level.as_str();
    let title = escape_property(title);
    format!("::{level} {place}title={title}::{}\n", escape_message(message))
}

/// Escapes a message as the runner reads it: it decodes %25, %0D and %0A, and nothing else.
fn escape_message(text: &str) -> String {
    escape_controls(text).replace('%', "%25")
}

/// Escapes the value of a property, which ends at a comma or a colon.
fn escape_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line_and_decodes_to_its_texts() {
        let file = Path::new("a,b:c%2C.txt");
        let command = annotation(Level::Error, Some((file, 3)), "x: y, 100%", "a%0A\n\r::error::b");
        assert_eq!(
            command,
            "::error file=a%2Cb%3Ac%252C.txt,line=3,title=x%3A y%2C 100%25::a%250A\\n\\r::error::b\n"
        );
        let command = annotation(Level::Notice, None, "title", "text");
        assert_eq!(command, "::notice title=title::text\n");
    }
}
