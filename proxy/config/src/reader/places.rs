//! The lines of keys and tables, for warnings about a configuration without mistakes.

use toml::Spanned;
use toml::de::DeTable;

use super::section::SourceText;
use super::value::ValueNode;

/// The texts of a configuration, in which keys are looked up.
#[derive(Debug)]
pub struct ConfigPlaces<'t> {
    /// The main file, then those that it includes.
    files: Vec<(SourceText<'t>, Spanned<DeTable<'t>>)>,
}

impl<'t> ConfigPlaces<'t> {
    /// Parses the texts, each given with its file's name.
    pub fn parse(texts: impl Iterator<Item = (&'t str, &'t str)>) -> Self {
        let parse =
            |(file, text)| (SourceText::new(file, text), DeTable::parse_recoverable(text).0);
        Self { files: texts.map(parse).collect() }
    }

    /// Returns the place of a key of the main file, as mistakes name it: `my.toml:3: log.decisions`.
    pub fn key(&self, key: &str) -> String {
        let line = self
            .files
            .first()
            .and_then(|(source, table)| Some((source.file, source.line_of(table.get_ref(), key)?)));
        line.map_or_else(|| key.to_owned(), |(file, line)| format!("{file}:{line}: {key}"))
    }

    /// Returns the place of a key in a table that may occur several times: `my.toml:9: [[rule]] 2.hosts`. Tables are counted from
    /// 1, over all files. Of a key that the table does not have, it is the place of the table.
    pub fn key_in_table(&self, tables: &str, number: usize, key: &str) -> String {
        let name = format!("[[{tables}]] {number}.{key}");
        let all = self.files.iter().flat_map(|(source, root)| {
            let nodes = root.get_ref().get(tables).and_then(|node| node.get_ref().as_array());
            nodes.into_iter().flat_map(|nodes| nodes.iter()).map(move |node| (source, node))
        });
        let found = all.skip(number - 1).map(|(source, node): (_, &ValueNode<'_>)| {
            let within = node.get_ref().as_table().and_then(|table| table.get_key_value(key));
            let at = within.map_or(node.span().start, |(key, _)| key.span().start);
            format!("{}:{}: {name}", source.file, source.line(at))
        });
        found.take(1).next().unwrap_or_else(|| name.clone())
    }
}
