//! The property without which no figure counts: what is decided by a parsed file does not depend on who asked before.

use std::collections::HashMap;

use wayleave_robots_txt::{
    AccessResult, Dialect, ProductToken, RobotsTxt, UrlPath, decide_all_spellings,
};

use crate::corpus::{Corpus, shuffle};

/// Compares each decision by a file that all questions share, in random order, with that by a file that nobody asked before.
///
/// # Panics
///
/// If two differ.
pub(crate) fn check(corpus: &Corpus) {
    let parse = |file: &String| AccessResult::Successful(RobotsTxt::parse(&corpus.bodies[file]));
    let shared: HashMap<_, _> = corpus.bodies.keys().map(|file| (file, parse(file))).collect();
    let mut order: Vec<usize> = (0..corpus.questions.len()).collect();
    shuffle(&mut order, &mut 1);
    for index in order {
        let question = &corpus.questions[index];
        let fresh = parse(&question.file);
        let path = UrlPath::parse(&question.path).expect("a path");
        let token = ProductToken::verbatim(&question.agent);
        let tokens = [token.unwrap_or_else(|_| ProductToken::anonymous())];
        for &dialect in Dialect::ALL {
            let [one, other] = [&fresh, &shared[&question.file]].map(|access| {
                let decision = decide_all_spellings(access, dialect, &tokens, &path);
                (decision.verdict(), decision.reason(), decision.line())
            });
            assert_eq!(one, other, "{} {} {dialect}", question.file, question.path);
        }
    }
    println!("{} questions are decided alike in any order", corpus.questions.len());
}
