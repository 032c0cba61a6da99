//! The property without which no figure counts: what is decided by a parsed file does not depend on who asked before.

use wayleave_robots_txt::{AccessResult, Dialect, RobotsTxt, UrlPath, decide_all_spellings};

use crate::corpus::{Corpus, shuffle};
use crate::random::parse_all;

/// Compares each decision by a file that all questions share, in random order, with that by a file that nobody asked before.
///
/// # Panics
///
/// If two differ.
pub(crate) fn check(corpus: &Corpus) {
    let (shared, tokens) = parse_all(corpus);
    let mut order: Vec<usize> = (0..corpus.questions.len()).collect();
    shuffle(&mut order, &mut 1);
    for index in order {
        let question = &corpus.questions[index];
        let fresh = AccessResult::Successful(RobotsTxt::parse(&corpus.bodies[&question.file]));
        let path = UrlPath::parse(&question.path).expect("a path");
        for &dialect in Dialect::ALL {
            let [one, other] = [&fresh, &shared[&question.file]].map(|access| {
                let decision =
                    decide_all_spellings(access, dialect, &tokens[&question.agent], &path);
                (decision.verdict(), decision.reason(), decision.line())
            });
            assert_eq!(one, other, "{} {} {dialect}", question.file, question.path);
        }
    }
    println!("{} questions are decided alike in any order", corpus.questions.len());
}
