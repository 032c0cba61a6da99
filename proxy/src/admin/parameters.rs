//! Extractors for the path and the query of requests to the admin listener. An error names the parameter that is wrong.

use std::fmt;
use std::iter::once;
use std::num::{IntErrorKind, ParseIntError};
use std::str::FromStr;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::response::Response;
use serde::Deserializer;
use serde::de::value::{MapDeserializer, SeqDeserializer, StringDeserializer};
use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;
use url::form_urlencoded;
use wayleave_clock::TimeArgument;
use wayleave_decision_log::DecisionId;
use wayleave_robots_txt::Origin;

use super::response::bad_request;

/// The parameters of the query. A parameter with several values is repeated.
#[derive(Debug)]
pub(super) struct QueryParameters<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryParameters<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        parse_query(parts.uri.query().unwrap_or_default())
            .map(Self)
            .map_err(|QueryError(mistake)| bad_request(mistake))
    }
}

/// The decoded segment of the path that names a resource.
#[derive(Debug)]
pub(super) struct PathSegment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for PathSegment {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let Path(name) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| bad_request("the path is not UTF-8 once its %XX are decoded"))?;
        Ok(Self(name))
    }
}

/// The origin that the path names.
#[derive(Debug)]
pub(super) struct PathOrigin(pub(super) Origin);

impl<S: Send + Sync> FromRequestParts<S> for PathOrigin {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let PathSegment(origin) = PathSegment::from_request_parts(parts, state).await?;
        Origin::parse(&origin)
            .map(Self)
            .map_err(|mistake| bad_request(format!("origin: {mistake}")))
    }
}

/// The decision that the path names.
#[derive(Debug)]
pub(super) struct PathDecision(pub(super) DecisionId);

impl<S: Send + Sync> FromRequestParts<S> for PathDecision {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let PathSegment(id) = PathSegment::from_request_parts(parts, state).await?;
        let mistake = || format!("id: {id:?} is not a decision ID: 32 hexadecimal digits");
        id.parse().map(Self).map_err(|_| bad_request(mistake()))
    }
}

/// The number of items that are listed by default.
const DEFAULT_LIMIT: usize = 100;

/// Returns the number of items to list.
///
/// # Errors
///
/// Returns a message if it is not from 1 to `max`.
pub(super) fn check_limit(requested: Option<usize>, max: usize) -> Result<usize, String> {
    match requested {
        None => Ok(DEFAULT_LIMIT),
        Some(limit) if (1..=max).contains(&limit) => Ok(limit),
        Some(limit) => Err(format!("limit: {limit} is not 1 to {max}")),
    }
}

/// Parses a time in the format of RFC 3339, a day, or a span before now.
///
/// # Errors
///
/// Returns a message that names the parameter.
pub(super) fn parse_time(name: &str, text: &str) -> Result<TimeArgument, String> {
    text.parse().map_err(|mistake| format!("{name}: {mistake}"))
}

fn parse_query<T: DeserializeOwned>(query: &str) -> Result<T, QueryError> {
    // With a deserializer of our own: axum's rejects a repeated parameter, and its errors speak of Rust types instead of naming
    // the parameter.
    let mut parameters: Vec<QueryParameter> = Vec::new();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match parameters.iter_mut().find(|parameter| parameter.name == name) {
            Some(named) => named.others.push(value.into_owned()),
            None => parameters.push(QueryParameter::new(name.into_owned(), value.into_owned())),
        }
    }
    let named = parameters.into_iter().map(|parameter| (parameter.name.clone(), parameter));
    T::deserialize(MapDeserializer::new(named))
}

/// A parameter with its values.
struct QueryParameter {
    name: String,
    first: String,
    others: Vec<String>,
}

impl QueryParameter {
    fn new(name: String, value: String) -> Self {
        Self { name, first: value, others: Vec::new() }
    }

    /// Parses the value with `read`. More than one value is an error.
    fn single<T>(
        self,
        read: impl FnOnce(String) -> Result<T, QueryError>,
    ) -> Result<T, QueryError> {
        let value = if self.others.is_empty() {
            read(self.first)
        } else {
            Err(QueryError("given more than once".to_owned()))
        };
        value.map_err(|QueryError(mistake)| QueryError(format!("{}: {mistake}", self.name)))
    }

    fn number<T: FromStr<Err = ParseIntError>>(self) -> Result<T, QueryError> {
        self.single(|text| {
            // A number that is too large is a whole number all the same: the message should not deny that.
            text.parse().map_err(|error: ParseIntError| {
                QueryError(match error.kind() {
                    IntErrorKind::PosOverflow => format!("{text} is too large"),
                    _ => format!("{text:?} is not a whole number"),
                })
            })
        })
    }
}

impl<'de> IntoDeserializer<'de, QueryError> for QueryParameter {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for QueryParameter {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        self.single(|text| visitor.visit_string(text))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        // A parameter that is absent is not in the map, so it never gets here.
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        // Each value as a parameter of its own, so that an error in one of them names the parameter, too.
        let values =
            once(self.first).chain(self.others).map(|value| Self::new(self.name.clone(), value));
        visitor.visit_seq(SeqDeserializer::new(values))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_bool(self.single(|text| {
            text.parse().map_err(|_| QueryError(format!("{text:?} is not true or false")))
        })?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_u32(self.number()?)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_u64(self.number()?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        self.single(|text| {
            let word: StringDeserializer<QueryError> = text.into_deserializer();
            word.deserialize_enum(name, variants, visitor)
        })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        newtype_struct tuple tuple_struct map struct identifier ignored_any
    }
}

/// A message about a mistake in a query.
#[derive(Debug, PartialEq, Eq)]
struct QueryError(String);

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QueryError {}

impl de::Error for QueryError {
    fn custom<T: fmt::Display>(mistake: T) -> Self {
        Self(mistake.to_string())
    }

    fn missing_field(name: &'static str) -> Self {
        Self(format!("{name} is missing"))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        let names = known.join(", ");
        Self(format!("{name:?} is not a parameter here; these are: {names}"))
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self(format!("{word:?} is not one of {}", known.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    #[serde(deny_unknown_fields)]
    struct Query {
        by: By,
        limit: Option<usize>,
        days: Option<u32>,
        q: Option<String>,
        #[serde(default)]
        traffic: bool,
        #[serde(default)]
        purpose: Vec<String>,
    }

    #[derive(Debug, Deserialize, PartialEq, Eq)]
    #[serde(rename_all = "lowercase")]
    enum By {
        Host,
        Rule,
    }

    #[test]
    fn parameters_are_read_in_any_order_and_some_repeatedly() {
        let query = "purpose=a&q=caf%C3%A9+x&by=rule&limit=5&purpose=b%2Cc&traffic=true&days=7";
        let expected = Query {
            by: By::Rule,
            limit: Some(5),
            days: Some(7),
            q: Some("caf\u{e9} x".to_owned()),
            traffic: true,
            purpose: vec!["a".to_owned(), "b,c".to_owned()],
        };
        assert_eq!(parse_query(query), Ok(expected));
    }

    #[test]
    fn a_mistake_names_its_parameter() {
        for (query, expected) in [
            ("", "by is missing"),
            ("by=colour", "by: \"colour\" is not one of host, rule"),
            ("by=host&limit=many", "limit: \"many\" is not a whole number"),
            ("by=host&limit=-1", "limit: \"-1\" is not a whole number"),
            ("by=host&limit=", "limit: \"\" is not a whole number"),
            ("by=host&days=4294967296", "days: 4294967296 is too large"),
            ("by=host&traffic=1", "traffic: \"1\" is not true or false"),
            ("by=host&q=a&q=b", "q: given more than once"),
            ("by=host&by=rule", "by: given more than once"),
            (
                "by=host&colour=red",
                "\"colour\" is not a parameter here; these are: by, limit, days, q, traffic, purpose",
            ),
        ] {
            let QueryError(mistake) = parse_query::<Query>(query).unwrap_err();
            assert_eq!(mistake, expected, "{query}");
        }
    }
}
