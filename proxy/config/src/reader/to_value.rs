//! Values as they are written in the file.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use bytesize::ByteSize;
use ipnet::IpNet;
use serde_json::{Value as Json, json};
use toml::Value;
use toml::value::Datetime;
use url::Url;
use wayleave_decision::CertificateName;
use wayleave_evidence::Sha256Digest;
use wayleave_robots_txt::{HostPattern, Origin, ProductToken};
use wayleave_usage_preferences::{PreferenceSource, Purpose};

use crate::ListenAddress;

/// A type that can be the value of a key. Reading the value that it is written as gives the same value again.
pub(crate) trait ToValue {
    fn to_value(&self) -> Value;

    /// Returns the JSON Schema of such values: most are written as text.
    fn schema() -> Json {
        json!({ "type": "string" })
    }
}

/// Writes types as their text.
macro_rules! write_as_text {
    ($($kind:ty),*) => {$(
        impl ToValue for $kind {
            fn to_value(&self) -> Value {
                self.to_string().into()
            }
        }
    )*};
}

write_as_text!(
    String,
    SocketAddr,
    ListenAddress,
    CertificateName,
    IpNet,
    Url,
    Datetime,
    HostPattern,
    Origin,
    ProductToken,
    Purpose,
    PreferenceSource,
    IpAddr,
    Sha256Digest
);

impl ToValue for &str {
    fn to_value(&self) -> Value {
        (*self).into()
    }
}

impl ToValue for bool {
    fn to_value(&self) -> Value {
        (*self).into()
    }

    fn schema() -> Json {
        json!({ "type": "boolean" })
    }
}

impl ToValue for usize {
    fn to_value(&self) -> Value {
        // No key accepts an integer that is anywhere near this bound.
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }

    fn schema() -> Json {
        json!({ "type": "integer", "minimum": 0 })
    }
}

impl ToValue for f64 {
    fn to_value(&self) -> Value {
        (*self).into()
    }

    fn schema() -> Json {
        json!({ "type": "number" })
    }
}

impl ToValue for Duration {
    fn to_value(&self) -> Value {
        humantime::format_duration(*self).to_string().into()
    }
}

/// Uses the largest unit that keeps the number whole: a rounded size would not be the one in use.
impl ToValue for ByteSize {
    fn to_value(&self) -> Value {
        let bytes = self.as_u64();
        let units = [(Self::mib(1), "MiB"), (Self::kib(1), "KiB")];
        let largest_unit = units.iter().find(|(unit, _)| bytes.is_multiple_of(unit.as_u64()));
        match largest_unit {
            Some((unit, name)) => format!("{}{name}", bytes / unit.as_u64()).into(),
            None => format!("{bytes}B").into(),
        }
    }
}

/// Writes an absolute path, unless the working directory is unknown.
impl ToValue for Path {
    fn to_value(&self) -> Value {
        // Output that is saved in another directory must mean the same.
        let absolute = absolute(self);
        absolute.as_deref().unwrap_or(self).display().to_string().into()
    }
}

impl ToValue for PathBuf {
    fn to_value(&self) -> Value {
        self.as_path().to_value()
    }
}

impl<T: ToValue> ToValue for Vec<T> {
    fn to_value(&self) -> Value {
        self.iter().map(ToValue::to_value).collect::<Vec<_>>().into()
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }
}

/// Writes none as an empty string.
impl<T: ToValue> ToValue for Option<T> {
    fn to_value(&self) -> Value {
        self.as_ref().map_or_else(|| "".into(), ToValue::to_value)
    }

    fn schema() -> Json {
        T::schema()
    }
}
