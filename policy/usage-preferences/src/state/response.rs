//! Statements in the response: its status and fields, then the beginning of its page.

use super::{CollectedMetaRule, PreferenceState};
use crate::robots_meta::MetaRule;
use crate::statement::{StatementMeaning, excerpted};
use crate::{
    PreferenceQuery, PreferenceSource, PreferenceStage, PreferenceStatement, PurposeSet,
    StatementCarrier, content_signal, content_usage, html, link, robots_meta, robots_tag, tdmrep,
};

/// The fields of a response that state something, or say how the others are to be read.
const STATING_FIELDS: [&str; 10] = [
    "content-signal",
    "content-type",
    "content-usage",
    "crawler-price",
    "link",
    "robots-tag",
    "tdm-policy",
    "tdm-reservation",
    "www-authenticate",
    "x-robots-tag",
];

impl PreferenceState {
    /// Returns whether [`Self::add_response_head`] reads a field.
    #[must_use]
    pub fn reads_field(name: &[u8]) -> bool {
        STATING_FIELDS.iter().any(|stating| name.eq_ignore_ascii_case(stating.as_bytes()))
    }

    /// Adds the response head: its status, and its field lines.
    pub fn add_response_head<'f>(
        &mut self,
        query: PreferenceQuery<'_>,
        status: u16,
        fields: &(impl Iterator<Item = (&'f str, &'f str)> + Clone),
    ) {
        self.latest_stage = PreferenceStage::Head;
        let values = |name: &'static str| {
            debug_assert!(Self::reads_field(name.as_bytes()), "{name} is missing in the list");
            fields
                .clone()
                .filter(move |(it, _)| it.eq_ignore_ascii_case(name))
                .map(|(_, value)| value)
        };
        let types =
            values("content-type").flat_map(|value| link::split_unquoted(value, ',')).map(essence);
        // With several media types, one that any client would take for HTML wins.
        self.content_type = types.min_by_key(|kind| !is_html(kind)).unwrap_or_default();
        let asks_for_licence =
            || values("www-authenticate").any(|challenge| names_scheme(challenge, "License"));
        // Either status tells a crawler to pay or to obtain a licence first.
        if status == 402 || status == 401 && asks_for_licence() {
            let price = values("crawler-price").next();
            self.statements.push(payment(status, price));
        }
        // All its lines are one dictionary (RFC 9651 §4.2), in which the last of duplicate labels applies.
        let usage: Vec<&str> = values("content-usage").collect();
        self.add_usage_field(query, &usage.join(", "));
        for list in values("content-signal") {
            self.add_signal_field(query, list);
        }
        let policy = values("tdm-policy").next();
        for value in values("tdm-reservation") {
            self.add_reservation(query, value, policy, PreferenceStage::Head);
        }
        // All its lines are one list, unlike those of its predecessor.
        let tags: Vec<&str> = values("robots-tag").collect();
        if !tags.is_empty() && query.reads_source(PreferenceSource::RobotsMeta) {
            for tagged in robots_tag::rules(&tags.join(", "), query.tokens) {
                let text = format!("Robots-Tag: {}", tagged.member);
                for rule in tagged.rules {
                    self.add_meta_rule(rule, &text, PreferenceStage::Head);
                }
            }
        }
        // Joined, the rules of one line would follow the crawler's name in another.
        for line in values("x-robots-tag") {
            let text = format!("X-Robots-Tag: {line}");
            self.add_meta_rules(query, line, &text, PreferenceStage::Head);
        }
        for url in values("link").flat_map(link::licences) {
            self.add_licence_reference(query, &url, StatementCarrier::Field, PreferenceStage::Head);
        }
    }

    /// Returns whether the beginning of the response body may state more, once the head has been added.
    #[must_use]
    pub fn needs_page(&self, query: PreferenceQuery<'_>) -> bool {
        let sources =
            [PreferenceSource::RobotsMeta, PreferenceSource::Tdmrep, PreferenceSource::Rsl];
        is_html(&self.content_type) && sources.iter().any(|source| query.reads_source(*source))
    }

    /// Adds the beginning of the response body, if that is HTML.
    pub fn add_page(&mut self, query: PreferenceQuery<'_>, page: &str) {
        self.latest_stage = PreferenceStage::Body;
        // Clients do not interpret elements in other media types.
        if !is_html(&self.content_type) {
            return;
        }
        let metadata = html::read(page, self.content_type == XHTML);
        let named = |name: &'static str| metadata.metas.iter().filter(move |(it, _)| it == name);
        let policy = named("tdm-policy").next().map(|(_, url)| url.as_str());
        for (_, value) in named("tdm-reservation") {
            self.add_reservation(query, value, policy, PreferenceStage::Body);
        }
        for (name, content) in &metadata.metas {
            if robots_meta::names_crawler(name, query.tokens) {
                let text = format!("<meta name={name:?} content={content:?}>");
                self.add_meta_rules(query, content, &text, PreferenceStage::Body);
            }
        }
        // HTML resolves references against `<base>`, which may itself be relative.
        let base = match &metadata.base {
            Some(base) => link::resolve_reference(base, &self.url),
            None => self.url.clone(),
        };
        for reference in &metadata.licences {
            let url = link::resolve_reference(reference, &base);
            self.add_licence_reference(query, &url, StatementCarrier::Meta, PreferenceStage::Body);
        }
        if query.reads_source(PreferenceSource::Rsl) {
            for document in &metadata.documents {
                self.add_licence_in_page(document);
            }
        }
    }

    fn add_usage_field(&mut self, query: PreferenceQuery<'_>, dictionary: &str) {
        if query.reads_source(PreferenceSource::ContentUsage) {
            let labels = content_usage::read(dictionary.as_bytes());
            self.add_field(PreferenceSource::ContentUsage, "Content-Usage", dictionary, labels);
        }
    }

    fn add_signal_field(&mut self, query: PreferenceQuery<'_>, list: &str) {
        if query.reads_source(PreferenceSource::ContentSignal) {
            let signals = content_signal::read(list, query.declaration.content_use());
            self.add_field(PreferenceSource::ContentSignal, "Content-Signal", list, signals);
        }
    }

    fn add_field(
        &mut self,
        source: PreferenceSource,
        name: &str,
        value: &str,
        meanings: Vec<StatementMeaning>,
    ) {
        let text = excerpted(&format!("{name}: {value}"));
        self.statements.extend(meanings.into_iter().map(|meaning| PreferenceStatement {
            stage: PreferenceStage::Head,
            ..PreferenceStatement::new(source, StatementCarrier::Field, text.clone(), meaning)
        }));
    }

    fn add_reservation(
        &mut self,
        query: PreferenceQuery<'_>,
        value: &str,
        policy: Option<&str>,
        stage: PreferenceStage,
    ) {
        if query.reads_source(PreferenceSource::Tdmrep) {
            let statement = tdmrep::statement(value, format!("tdm-reservation: {value}"), stage);
            self.statements.extend(statement.map(|statement| PreferenceStatement {
                policy: policy.map(|policy| excerpted(policy.trim())),
                ..statement
            }));
        }
    }

    fn add_meta_rules(
        &mut self,
        query: PreferenceQuery<'_>,
        line: &str,
        text: &str,
        stage: PreferenceStage,
    ) {
        if query.reads_source(PreferenceSource::RobotsMeta) {
            let rules = match stage {
                PreferenceStage::Body => robots_meta::rules_of_content(line, query.tokens),
                _ => robots_meta::rules(line, query.tokens),
            };
            for rule in rules {
                self.add_meta_rule(rule, text, stage);
            }
        }
    }

    /// Adds a robots meta rule. Of rules with one name only the strictest is kept, since a page may be full of them.
    fn add_meta_rule(&mut self, rule: MetaRule, text: &str, stage: PreferenceStage) {
        let Some(rank) = robots_meta::strictness(&rule) else {
            return;
        };
        let known = self
            .meta_rules
            .iter_mut()
            .find(|known| known.rule.name == rule.name && known.stage == stage);
        if known.as_ref().is_some_and(|known| robots_meta::strictness(&known.rule) <= Some(rank)) {
            return;
        }
        let stricter = CollectedMetaRule {
            rule,
            carrier: match stage {
                PreferenceStage::Body => StatementCarrier::Meta,
                _ => StatementCarrier::Field,
            },
            stage,
            text: excerpted(text),
        };
        match known {
            Some(known) => *known = stricter,
            None => self.meta_rules.push(stricter),
        }
    }
}

const XHTML: &str = "application/xhtml+xml";

fn essence(content_type: &str) -> String {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Returns whether a response of this media type is HTML, or may be taken for it because the type is missing or unknown
/// (WHATWG MIME Sniffing, 7).
fn is_html(media_type: &str) -> bool {
    const PAGES: [&str; 5] = ["text/html", XHTML, "unknown/unknown", "application/unknown", "*/*"];
    PAGES.contains(&media_type) || !media_type.contains('/')
}

/// Returns whether one of the challenges of a line uses an authentication scheme (RFC 9110 §11.6.1).
fn names_scheme(challenges: &str, scheme: &str) -> bool {
    // A comma also separates the parameters of a challenge, but those contain `=` (RFC 9110 §11.2).
    link::split_unquoted(challenges, ',').into_iter().any(|part| {
        let first = part.split_whitespace().next().unwrap_or_default();
        first.eq_ignore_ascii_case(scheme)
    })
}

fn payment(status: u16, price: Option<&str>) -> PreferenceStatement {
    let priced = price.map_or_else(String::new, |price| format!(", crawler-price: {price}"));
    let clause =
        if status == 402 { "RFC 9110 §15.5.3" } else { "RSL 1.0, Crawler Authorization Protocol" };
    let text = excerpted(&format!("status {status}{priced}"));
    let meaning = StatementMeaning::refusal(PurposeSet::ALL, clause);
    let source = PreferenceSource::Payment;
    let carrier = StatementCarrier::Field;
    PreferenceStatement {
        stage: PreferenceStage::Head,
        ..PreferenceStatement::new(source, carrier, text, meaning)
    }
}
