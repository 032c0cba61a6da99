//! The questions to all crates, and the calls of the others.

use std::hint::black_box;

use robotstxt::RobotsParseHandler;
use wayleave_robots_txt::{AccessResult, RobotsTxt};

pub(crate) const NAME: &str = "foobot";

pub(crate) fn successful(body: &[u8]) -> AccessResult {
    AccessResult::Successful(RobotsTxt::parse(body))
}

/// robotstxt keeps no parsed file; it decides while it reads.
pub(crate) fn parse_robotstxt(text: &str) {
    robotstxt::parse_robotstxt(text, &mut Ignore);
}

/// A handler for robotstxt's parser that ignores everything.
struct Ignore;

impl RobotsParseHandler for Ignore {
    fn handle_robots_start(&mut self) {}
    fn handle_robots_end(&mut self) {}
    fn handle_user_agent(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_allow(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_disallow(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_sitemap(&mut self, line: u32, value: &str) {
        black_box((line, value));
    }
    fn handle_unknown_action(&mut self, line: u32, action: &str, value: &str) {
        black_box((line, action, value));
    }
}
