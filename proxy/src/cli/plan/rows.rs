//! The rows about single URLs. They are decided origin by origin, printed in the order of the list, and in a file until then:
//! there may be a million.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::process::ExitCode;

use crate::cli::check::url_list::{LineMistake, UrlList};
use crate::cli::terminal::{json_line, print_part, unusable};

/// The number of bytes that are printed at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// The rows that are known, in an unnamed file.
pub(super) struct UrlRows {
    file: BufWriter<File>,
    end: u64,
    /// The places of the rows in the file, by the index of the URL.
    places: Vec<Range<u64>>,
    /// The number of lines without a URL that can be asked about.
    pub(super) mistakes: usize,
}

impl UrlRows {
    /// Creates the file for the URLs of a list.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for temporary files.
    pub(super) fn new(list: &UrlList) -> io::Result<Self> {
        let file = BufWriter::new(tempfile::tempfile()?);
        let places = vec![0..0; list.urls.len()];
        Ok(Self { file, end: 0, places, mistakes: list.mistakes.len() })
    }

    /// Writes the row about a URL.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for it.
    pub(super) fn write(&mut self, index: usize, row: &str) -> io::Result<()> {
        let begin = self.end;
        self.file.write_all(row.as_bytes())?;
        self.end += row.len() as u64;
        self.places[index] = begin..self.end;
        Ok(())
    }

    /// Prints all rows, and those about mistakes, in the order of their lines.
    ///
    /// # Errors
    ///
    /// Returns the exit status if they cannot be read or printed.
    pub(super) fn print(self, mistakes: &[LineMistake], separator: &str) -> Result<(), ExitCode> {
        let Self { file, places, .. } = self;
        let unreadable = |error: io::Error| unusable(&cannot_write(&error));
        let file = file.into_inner().map_err(|error| unreadable(error.into_error()))?;
        let mut mistakes = mistakes.iter().peekable();
        let mut chunk = Vec::new();
        let mut is_first = true;
        let mut begin_row = |chunk: &mut Vec<u8>| {
            if !is_first {
                chunk.extend_from_slice(separator.as_bytes());
            }
            is_first = false;
        };
        for (index, place) in places.iter().enumerate() {
            while let Some(mistake) = mistakes.next_if(|mistake| mistake.urls_before <= index) {
                begin_row(&mut chunk);
                chunk.extend_from_slice(json_line(mistake).as_bytes());
            }
            begin_row(&mut chunk);
            let begin = chunk.len();
            chunk.resize(begin + (place.end - place.start) as usize, 0);
            file.read_exact_at(&mut chunk[begin..], place.start).map_err(unreadable)?;
            if chunk.len() >= CHUNK_BYTES {
                print_part(&String::from_utf8_lossy(&chunk))?;
                chunk.clear();
            }
        }
        for mistake in mistakes {
            begin_row(&mut chunk);
            chunk.extend_from_slice(json_line(mistake).as_bytes());
        }
        print_part(&String::from_utf8_lossy(&chunk))
    }
}

pub(super) fn cannot_write(error: &io::Error) -> String {
    format!("the temporary file of this plan: {error}")
}
