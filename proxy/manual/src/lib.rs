//! The documents below `docs/` as HTML, which the proxy's build script makes and its admin listener serves.
//!
//! Headings have the anchors that GitHub gives them, so that a link works in both places. In the first column of tables,
//! code has an anchor, too: a reason, a metric, a key. Raw HTML never reaches a page.
//!
//! This crate knows nothing of wayleave but its documents. Begin reading at [`render`].

mod headings;

use std::collections::HashSet;
use std::vec;

use pulldown_cmark::{Alignment, CowStr, Event, Options, Parser, Tag, TagEnd, html};
use pulldown_cmark_escape::escape_html;

use self::headings::{Heading, find_headings};

/// One document as a page.
#[derive(Debug)]
pub struct ManualPage {
    /// The text of the first heading.
    pub title: String,
    /// The content of the page's `<main>`.
    pub html: String,
}

/// Returns the page of a document.
pub fn render(markdown: &str) -> ManualPage {
    let parsed: Vec<_> = Parser::new_ext(markdown, Options::ENABLE_TABLES).collect();
    let headings = find_headings(&parsed);
    let title = headings.first().map(|first| first.text.clone()).unwrap_or_default();
    let mut builder = PageBuilder {
        shown: Vec::with_capacity(parsed.len()),
        // Links lead to headings first of all: a table may not take their anchors.
        anchors: headings.iter().map(|heading| heading.id.clone()).collect(),
        headings: headings.into_iter(),
        section: String::new(),
        raw_html: String::new(),
        heads: Vec::new(),
        is_head: false,
        cell: 0,
        is_source_link: false,
    };
    for event in parsed {
        builder.add(event);
    }
    let mut html = String::new();
    html::push_html(&mut html, builder.shown.into_iter());
    // A head without text is no head, for who hears it.
    ManualPage { title, html: html.replace("<th></th>", "<td></td>") }
}

/// Returns the page of a file that is not Markdown, such as the example configuration.
pub fn render_source(name: &str, text: &str) -> ManualPage {
    let title = escaped(name);
    let text = escaped(text);
    let html = format!("<h1>{title}</h1>\n<pre tabindex=\"0\"><code>{text}</code></pre>\n");
    ManualPage { title: name.to_owned(), html }
}

/// Returns the paths of the files that a document links to and that are pages of the manual, too, relative to `docs/`.
pub fn linked_sources(markdown: &str) -> Vec<String> {
    let link = |event| match event {
        Event::Start(Tag::Link { dest_url, .. }) => Some(dest_url),
        _ => None,
    };
    let links = Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(link);
    links.filter(|link| source_name(link).is_some()).map(|link| link.to_string()).collect()
}

/// Returns the code in the first column of the tables whose first head is `head`.
pub fn terms(markdown: &str, head: &str) -> Vec<String> {
    let mut terms = Vec::new();
    let mut cell = 0;
    let mut is_head = false;
    let mut is_wanted = false;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::TableHead) => (cell, is_head) = (0, true),
            Event::End(TagEnd::TableHead) => is_head = false,
            Event::Start(Tag::TableRow) => cell = 0,
            Event::Start(Tag::TableCell) => cell += 1,
            Event::End(TagEnd::Table) => is_wanted = false,
            Event::Text(text) if is_head && cell == 1 => is_wanted = *text == *head,
            Event::Code(code) if is_wanted && cell == 1 => terms.push(code.to_string()),
            _ => {}
        }
    }
    terms
}

/// The events of a page, as far as they have been read.
struct PageBuilder<'a> {
    shown: Vec<Event<'a>>,
    /// The anchors that are taken.
    anchors: HashSet<String>,
    /// The headings that follow.
    headings: vec::IntoIter<Heading>,
    /// The text of the last heading.
    section: String,
    /// The raw HTML of the block that is being read.
    raw_html: String,
    /// The heads of the table's columns. On narrow screens, where rows are stacked, each cell shows that of its column.
    heads: Vec<String>,
    is_head: bool,
    /// The number of the table's cell in its row, from 1; 0 outside of rows.
    cell: usize,
    /// Whether the text of a link to a file that is not served is being read.
    is_source_link: bool,
}

impl<'a> PageBuilder<'a> {
    fn add(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::HtmlBlock) => {}
            Event::Html(text) => self.raw_html.push_str(&text),
            Event::End(TagEnd::HtmlBlock) => {
                let html = std::mem::take(&mut self.raw_html);
                self.add_raw(&html);
            }
            Event::InlineHtml(text) => self.add_raw(&text),
            Event::Start(Tag::Heading { level, classes, attrs, .. }) => {
                let heading = self.headings.next().expect("every heading has been found");
                let id = Some(heading.id.into());
                self.shown.push(Event::Start(Tag::Heading { level, id, classes, attrs }));
                // Alerts link to their headings as these are written.
                if heading.text.chars().all(char::is_alphanumeric) {
                    self.add_anchor(&heading.text, "span");
                    self.add_markup("</span>");
                }
                self.section = heading.text;
            }
            // Wide text is scrolled, which the keyboard can do only in an element that takes the focus.
            Event::Start(Tag::CodeBlock(_)) => self.add_markup("<pre tabindex=\"0\"><code>"),
            Event::End(TagEnd::CodeBlock) => self.add_markup("</code></pre>\n"),
            Event::Start(Tag::Table(_) | Tag::TableHead | Tag::TableRow | Tag::TableCell)
            | Event::End(TagEnd::Table | TagEnd::TableHead | TagEnd::TableCell) => {
                self.add_part_of_table(event);
            }
            Event::Text(ref text) | Event::Code(ref text) if self.is_head => {
                self.heads.last_mut().expect("its cell has begun").push_str(text);
                self.shown.push(event);
            }
            Event::Code(code) if self.cell == 1 => {
                self.add_anchor(&code, "code");
                self.add_markup(format!("{}</code>", escaped(&code)));
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id })
                if source_name(&dest_url).is_some() =>
            {
                let dest_url = source_name(&dest_url).unwrap_or_default().to_owned().into();
                self.shown.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Link { ref dest_url, .. }) if !is_served(dest_url) => {
                self.is_source_link = true;
                let path = escaped(dest_url.trim_start_matches("../"));
                self.add_markup(format!("<span title=\"In the sources: {path}\">"));
            }
            Event::End(TagEnd::Link) if self.is_source_link => {
                self.is_source_link = false;
                self.add_markup("</span>");
            }
            event => self.shown.push(event),
        }
    }

    fn add_part_of_table(&mut self, event: Event<'a>) {
        match event {
            Event::Start(Tag::Table(columns)) => {
                let label = escaped(&self.section);
                let opening = "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=";
                self.add_markup(format!("{opening}\"{label}\">"));
                // Alignments would be styles, which the policy of the admin listener forbids.
                let plain = vec![Alignment::None; columns.len()];
                self.shown.push(Event::Start(Tag::Table(plain)));
            }
            Event::End(TagEnd::Table) => {
                self.cell = 0;
                self.shown.push(event);
                self.add_markup("</div>\n");
            }
            Event::Start(Tag::TableHead) => {
                (self.cell, self.is_head) = (0, true);
                self.heads.clear();
                self.shown.push(event);
            }
            Event::End(TagEnd::TableHead) => {
                self.is_head = false;
                self.shown.push(event);
            }
            Event::Start(Tag::TableRow) => {
                self.cell = 0;
                self.shown.push(event);
            }
            Event::Start(Tag::TableCell) if self.is_head => {
                self.cell += 1;
                self.heads.push(String::new());
                self.shown.push(event);
            }
            Event::Start(Tag::TableCell) => {
                let head = self.heads.get(self.cell).map(|head| escaped(head)).unwrap_or_default();
                self.cell += 1;
                self.add_markup(format!("<td data-label=\"{head}\">"));
            }
            Event::End(TagEnd::TableCell) if !self.is_head => self.add_markup("</td>"),
            event => self.shown.push(event),
        }
    }

    /// Adds raw HTML as text, unless it is a comment.
    fn add_raw(&mut self, html: &str) {
        let inner = html.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->"));
        if inner.is_none_or(|inner| inner.contains("-->")) {
            self.shown.push(Event::Text(html.to_owned().into()));
        }
    }

    /// Adds the opening tag of an element, with an anchor unless that is taken.
    fn add_anchor(&mut self, id: &str, element: &str) {
        if !id.contains(char::is_whitespace) && self.anchors.insert(id.to_owned()) {
            self.add_markup(format!("<{element} id=\"{}\">", escaped(id)));
        } else {
            self.add_markup(format!("<{element}>"));
        }
    }

    fn add_markup(&mut self, html: impl Into<CowStr<'a>>) {
        self.shown.push(Event::InlineHtml(html.into()));
    }
}

/// Returns whether a link leads to a page of another site or of the manual, not to a file of the sources.
fn is_served(link: &str) -> bool {
    let path = link.split('#').next().unwrap_or_default();
    let is_document = path.ends_with(".md") && !path.contains(['/', ':']);
    path.is_empty() || is_document || link.starts_with("https://") || link.starts_with("http://")
}

/// Returns the name of the page of a file that a link leads to, unless that is a document or a folder.
fn source_name(link: &str) -> Option<&str> {
    let (_, name) = link.strip_prefix("../")?.rsplit_once('/').unwrap_or(("", &link[3..]));
    let is_file = name.contains('.') && !name.contains(['#', '"']) && !name.ends_with(".md");
    is_file.then_some(name)
}

fn escaped(text: &str) -> String {
    let mut html = String::new();
    escape_html(&mut html, text).expect("a string takes any text");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(markdown: &str) -> String {
        render(markdown).html
    }

    #[test]
    fn headings_have_the_anchors_of_github() {
        let page =
            render("# Is `it` wayleave's?\n\n## a_b-c d\n\n## a_b-c d\n\n### WayleaveDown\n");
        assert_eq!(page.title, "Is it wayleave's?");
        for id in ["is-it-wayleaves", "a_b-c-d", "a_b-c-d-1", "wayleavedown", "WayleaveDown"] {
            assert!(page.html.contains(&format!(" id=\"{id}\"")), "{id}: {}", page.html);
        }
    }

    #[test]
    fn code_in_a_first_column_has_an_anchor_once() {
        let page = html(
            "# rule\n\n| reason | means |\n| --- | --- |\n| `rule` | `x` |\n| `a-b`, `c_d` | `e` |\n| `a-b` | |\n| `f g` | |\n",
        );
        let ids: Vec<_> = page.split(" id=\"").skip(1).map(|rest| rest.split('"').next()).collect();
        assert_eq!(ids, [Some("rule"), Some("a-b"), Some("c_d")], "{page}");
        assert!(page.contains("<code>rule</code>"), "{page}");
    }

    #[test]
    fn raw_html_is_shown_as_text_and_comments_are_left_out() {
        let page = html(
            "a <b onclick=\"x()\">b</b> <!-- c -->\n\n<!-- snippet: d -->\n\n<!-- e\nf -->\n\n<script>\ng()\n</script>\n\n<!-- h --> <img src=x> <!-- i -->\n\n`<j>`\n\n| `<k id=\"l\">` |\n| --- |\n| `<m>` |\n",
        );
        for element in ["<b", "<script", "<img", "<k", "<j", "<m", "snippet", "e\nf", "<!-- c"] {
            assert!(!page.contains(element), "{element}: {page}");
        }
        for text in ["&lt;b onclick=", "&lt;script&gt;", "&lt;img src=x&gt;", "<code>&lt;j&gt;"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }

    #[test]
    fn only_links_to_pages_are_links() {
        let page = html(
            "[a](b.md) [c](d.md#e) [f](#g) [h](https://i.example/) [j](../k/\"README.md) [l](m.json) [n](javascript:o) [p](../q.md)\n",
        );
        let links: Vec<_> =
            page.split(" href=\"").skip(1).map(|rest| rest.split('"').next()).collect();
        let wanted = ["b.md", "d.md#e", "#g", "https://i.example/"];
        assert_eq!(links, wanted.map(Some), "{page}");
        assert!(
            page.contains("<span title=\"In the sources: k/&quot;README.md\">j</span>"),
            "{page}"
        );
    }

    #[test]
    fn cells_have_the_heads_of_their_columns() {
        let page = html("| a `b` | |\n| --- | --- |\n| `c` | d |\n\n| e |\n| --- |\n| f |\n");
        for cell in
            ["<td data-label=\"a b\"><code id=\"c\">c</code></td>", "<td data-label=\"e\">f</td>"]
        {
            assert!(page.contains(cell), "{cell}: {page}");
        }
        assert_eq!(
            page.matches("<td data-label=").count(),
            page.matches("</td>").count() - 1,
            "{page}"
        );
        assert!(page.contains("<th>a <code>b</code></th>"), "{page}");
    }

    #[test]
    fn links_to_files_lead_to_their_pages() {
        let document = "[a](../config.toml) [b](../c/d.service) [e](../f/) [g](../h/README.md)\n";
        let links = html(document);
        assert!(links.contains("<a href=\"config.toml\">a</a>"), "{links}");
        assert!(links.contains("<a href=\"d.service\">b</a>"), "{links}");
        assert_eq!(links.matches("<a ").count(), 2, "{links}");
        assert_eq!(linked_sources(document), ["../config.toml", "../c/d.service"]);
        let page = render_source("d.service", "[Unit] # <b>\n");
        assert_eq!(page.title, "d.service");
        assert!(page.html.contains("<code>[Unit] # &lt;b&gt;\n</code>"), "{}", page.html);
    }

    #[test]
    fn terms_are_those_of_tables_with_this_head() {
        let document = "`a`\n\n| reason | b |\n| --- | --- |\n| `c`, `d` | `e` |\n| f | g |\n\n`h`\n\n\
                        | kind |\n| --- |\n| `i` |\n";
        assert_eq!(terms(document, "reason"), ["c", "d"]);
        assert_eq!(terms(document, "kind"), ["i"]);
    }

    #[test]
    fn tables_have_neither_styles_nor_empty_heads() {
        let page = html("| a | |\n| ---: | :---: |\n| b | c |\n");
        assert!(!page.contains("style") && !page.contains("<th></th>"), "{page}");
    }

    #[test]
    fn tables_and_code_scroll_by_themselves() {
        let page = html("# A & b\n\n| c |\n| --- |\n| d |\n\n```sh\ne <f\n```\n");
        assert!(
            page.contains("tabindex=\"0\" role=\"group\" aria-label=\"A &amp; b\"><table>"),
            "{page}"
        );
        assert!(page.contains("<pre tabindex=\"0\"><code>e &lt;f\n</code></pre>"), "{page}");
    }
}
