//! Statements in the response: its status and fields, then the beginning of its page.

use super::{CollectedMetaRule, PreferenceState};
use crate::robots_meta::MetaRule;
use crate::statement::{StatementMeaning, excerpted};
use crate::{
    PreferenceQuery, PreferenceSource, PreferenceStage, PreferenceStatement, PurposeSet,
    StatementCarrier, content_signal, content_usage, html, link, robots_meta, tdmrep,
};

impl PreferenceState {
    /// Adds the response head: its status, and its field lines.
    pub fn add_response_head<'f>(
        &mut self,
        asker: PreferenceQuery<'_>,
        status: u16,
        fields: &(impl Iterator<Item = (&'f str, &'f str)> + Clone),
    ) {
        self.latest_stage = PreferenceStage::Head;
        let values = |name: &'static str| {
            let named = fields.clone().filter(move |(it, _)| it.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value)
        };
        let types = values("content-type").flat_map(|it| link::split_unquoted(it, ','));
        let mut types: Vec<String> = types.map(essence).collect();
        // With several media types, one that any client would take for HTML wins.
        types.sort_by_key(|it| !is_html(it));
        self.content_type = types.into_iter().next().unwrap_or_default();
        let challenges = || values("www-authenticate").any(|it| names_scheme(it, "License"));
        // Either status tells a crawler to pay or to obtain a licence first.
        if status == 402 || status == 401 && challenges() {
            let price = values("crawler-price").next();
            self.statements.push(payment(status, price));
        }
        let usage: Vec<&str> = values("content-usage").collect();
        self.add_usage_field(asker, &usage.join(", "));
        for list in values("content-signal") {
            self.add_signal_field(asker, list);
        }
        let policy = values("tdm-policy").next();
        for value in values("tdm-reservation") {
            self.add_reservation(asker, value, policy, PreferenceStage::Head);
        }
        for line in values("x-robots-tag") {
            let text = format!("X-Robots-Tag: {line}");
            self.add_meta_rules(asker, line, &text, PreferenceStage::Head);
        }
        for url in values("link").flat_map(link::licences) {
            self.add_licence_reference(asker, &url, StatementCarrier::Field, PreferenceStage::Head);
        }
    }

    /// Returns whether the beginning of the response body may state more, once the head has been added.
    #[must_use]
    pub fn needs_page(&self, asker: PreferenceQuery<'_>) -> bool {
        let sources =
            [PreferenceSource::RobotsMeta, PreferenceSource::Tdmrep, PreferenceSource::Rsl];
        is_html(&self.content_type) && sources.iter().any(|source| asker.reads_source(*source))
    }

    /// Adds the beginning of the response body, if that is HTML.
    pub fn add_page(&mut self, asker: PreferenceQuery<'_>, page: &str) {
        self.latest_stage = PreferenceStage::Body;
        // Clients do not interpret elements in other media types.
        if !is_html(&self.content_type) {
            return;
        }
        let said = html::read(page, self.content_type == XHTML);
        let named = |name: &'static str| said.metas.iter().filter(move |(it, _)| it == name);
        let policy = named("tdm-policy").next().map(|(_, url)| url.as_str());
        for (_, value) in named("tdm-reservation") {
            self.add_reservation(asker, value, policy, PreferenceStage::Body);
        }
        for (name, content) in &said.metas {
            if robots_meta::names_crawler(name, asker.tokens) {
                let text = format!("<meta name={name:?} content={content:?}>");
                self.add_meta_rules(asker, content, &text, PreferenceStage::Body);
            }
        }
        // HTML resolves references against `<base>`, which may itself be relative.
        let base = said.base.as_deref();
        let base = base.map_or(self.url.clone(), |it| link::resolve_reference(it, &self.url));
        for reference in &said.licences {
            let url = link::resolve_reference(reference, &base);
            self.add_licence_reference(asker, &url, StatementCarrier::Meta, PreferenceStage::Body);
        }
        for document in said.documents.iter().filter(|_| asker.reads_source(PreferenceSource::Rsl))
        {
            self.add_licence_in_page(document);
        }
    }

    /// Adds `Content-Usage`, whose lines are one dictionary.
    fn add_usage_field(&mut self, asker: PreferenceQuery<'_>, dictionary: &str) {
        if asker.reads_source(PreferenceSource::ContentUsage) {
            let labels = content_usage::read(dictionary.as_bytes(), asker.settings.legacy_labels);
            self.add_field(PreferenceSource::ContentUsage, "Content-Usage", dictionary, labels);
        }
    }

    fn add_signal_field(&mut self, asker: PreferenceQuery<'_>, list: &str) {
        if asker.reads_source(PreferenceSource::ContentSignal) {
            let signals = content_signal::read(list, asker.declaration.content_use());
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
        let statement = |meaning: StatementMeaning| PreferenceStatement {
            source,
            carrier: StatementCarrier::Field,
            text: text.clone(),
            clause: meaning.clause,
            policy: None,
            stage: PreferenceStage::Head,
            refuses: meaning.refuses,
            allows: meaning.allows,
        };
        self.statements.extend(meanings.into_iter().map(statement));
    }

    fn add_reservation(
        &mut self,
        asker: PreferenceQuery<'_>,
        value: &str,
        policy: Option<&str>,
        stage: PreferenceStage,
    ) {
        if asker.reads_source(PreferenceSource::Tdmrep) {
            let text = format!("tdm-reservation: {value}");
            let statement = tdmrep::statement(value, text, stage);
            let policy = policy.map(|it| excerpted(it.trim()));
            self.statements.extend(statement.map(|it| PreferenceStatement { policy, ..it }));
        }
    }

    fn add_meta_rules(
        &mut self,
        asker: PreferenceQuery<'_>,
        line: &str,
        text: &str,
        stage: PreferenceStage,
    ) {
        if asker.reads_source(PreferenceSource::RobotsMeta) {
            let rules = match stage {
                PreferenceStage::Body => robots_meta::rules_of_content(line, asker.tokens),
                _ => robots_meta::rules(line, asker.tokens),
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
        let is_same = |it: &&mut CollectedMetaRule| it.rule.name == rule.name && it.stage == stage;
        let heard = self.meta_rules.iter_mut().find(is_same);
        if heard.as_ref().is_some_and(|it| robots_meta::strictness(&it.rule) <= Some(rank)) {
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
        match heard {
            Some(heard) => *heard = stricter,
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
    let mut parts = link::split_unquoted(challenges, ',').into_iter();
    parts.any(|part| {
        let first = part.split_whitespace().next().unwrap_or_default();
        first.eq_ignore_ascii_case(scheme)
    })
}

fn payment(status: u16, price: Option<&str>) -> PreferenceStatement {
    let price = price.map_or_else(String::new, |it| format!(", crawler-price: {it}"));
    PreferenceStatement {
        source: PreferenceSource::Payment,
        carrier: StatementCarrier::Field,
        text: excerpted(&format!("status {status}{price}")),
        clause: if status == 402 {
            "RFC 9110 §15.5.3"
        } else {
            "RSL 1.0, Crawler Authorization Protocol"
        },
        policy: None,
        stage: PreferenceStage::Head,
        refuses: PurposeSet::ALL,
        allows: PurposeSet::NONE,
    }
}
