//! Headings and their anchors.

use std::collections::HashMap;

use pulldown_cmark::{Event, Tag, TagEnd};

/// A heading of a document.
pub(crate) struct Heading {
    pub(crate) text: String,
    /// Its anchor.
    pub(crate) id: String,
}

/// Returns the headings in their order. Where several have the same text, numbers tell their anchors apart.
pub(crate) fn find_headings(events: &[Event<'_>]) -> Vec<Heading> {
    let mut texts = Vec::new();
    let mut is_heading = false;
    for event in events {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                is_heading = true;
                texts.push(String::new());
            }
            Event::End(TagEnd::Heading(_)) => is_heading = false,
            Event::Text(text) | Event::Code(text) if is_heading => {
                texts.last_mut().expect("its heading has begun").push_str(text);
            }
            _ => {}
        }
    }
    let mut repeats: HashMap<String, usize> = HashMap::new();
    let with_anchor = |text: String| {
        let slug = slug(&text);
        let earlier = repeats.entry(slug.clone()).or_insert(0);
        let id = if *earlier == 0 { slug } else { format!("{slug}-{earlier}") };
        *earlier += 1;
        Heading { text, id }
    };
    texts.into_iter().map(with_anchor).collect()
}

/// Returns the anchor that GitHub gives a heading: lower case, with hyphens for spaces, without punctuation.
fn slug(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
