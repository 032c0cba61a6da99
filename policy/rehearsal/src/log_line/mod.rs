//! One line of an access log as a request.

mod combined;
mod json;
mod request;

pub(crate) use request::LoggedRequest;

/// The longest line that is read. Servers refuse heads of requests that are longer than a fraction of this.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The format of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The "combined" format of Apache httpd and nginx; fields before the address and after the User-Agent are skipped.
    Combined,
    /// A JSON object a line, with the names that servers and networks give its members.
    Json,
}

impl LogFormat {
    /// Parses a line; without a format, a line that begins with a brace is JSON.
    ///
    /// # Errors
    ///
    /// Says what the line lacks.
    pub(crate) fn parse(
        format: Option<Self>,
        line: &[u8],
    ) -> Result<LoggedRequest<'_>, &'static str> {
        if line.len() > MAX_LINE_BYTES {
            return Err("longer than 64 KiB");
        }
        let is_json = line.trim_ascii_start().starts_with(b"{");
        match format.unwrap_or(if is_json { Self::Json } else { Self::Combined }) {
            Self::Combined => combined::parse(line),
            Self::Json => json::parse(line),
        }
    }
}
