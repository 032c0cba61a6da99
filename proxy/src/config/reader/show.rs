//! Values as they are written in the file.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf, absolute};
use std::time::Duration;

use bytesize::ByteSize;
use ipnet::IpNet;
use toml::Value;
use toml::value::Datetime;
use url::Url;
use wayleave_robots_txt::preferences::{PreferenceSource, Purpose};
use wayleave_robots_txt::{HostPattern, ProductToken};

use crate::downstream::listeners::ListenAddress;
use crate::identity::CertificateName;

/// A type that can be the value of a key. Reading the value that it is written as gives the same value again.
pub(crate) trait Show {
    fn show(&self) -> Value;
}

/// Writes types as their text.
macro_rules! show_as_text {
    ($($kind:ty),*) => {$(
        impl Show for $kind {
            fn show(&self) -> Value {
                self.to_string().into()
            }
        }
    )*};
}

show_as_text!(
    String,
    SocketAddr,
    ListenAddress,
    CertificateName,
    IpNet,
    Url,
    Datetime,
    HostPattern,
    ProductToken,
    Purpose,
    PreferenceSource,
    IpAddr
);

impl Show for &str {
    fn show(&self) -> Value {
        (*self).into()
    }
}

impl Show for bool {
    fn show(&self) -> Value {
        (*self).into()
    }
}

impl Show for usize {
    fn show(&self) -> Value {
        // No key accepts an integer that is anywhere near this bound.
        Value::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Show for f64 {
    fn show(&self) -> Value {
        (*self).into()
    }
}

impl Show for Duration {
    fn show(&self) -> Value {
        humantime::format_duration(*self).to_string().into()
    }
}

/// Uses the largest unit that keeps the number whole: a rounded size would not be the one in use.
impl Show for ByteSize {
    fn show(&self) -> Value {
        let bytes = self.as_u64();
        let units = [(Self::mib(1), "MiB"), (Self::kib(1), "KiB")];
        let mut units = units.iter();
        let unit = units.find(|(unit, _)| bytes.is_multiple_of(unit.as_u64()));
        match unit {
            Some((unit, name)) => format!("{}{name}", bytes / unit.as_u64()).into(),
            None => format!("{bytes}B").into(),
        }
    }
}

/// Writes an absolute path, unless the working directory is unknown.
impl Show for Path {
    fn show(&self) -> Value {
        let absolute = absolute(self);
        let path = absolute.as_deref().unwrap_or(self);
        path.display().to_string().into()
    }
}

impl Show for PathBuf {
    fn show(&self) -> Value {
        self.as_path().show()
    }
}

impl<T: Show> Show for Vec<T> {
    fn show(&self) -> Value {
        self.iter().map(Show::show).collect::<Vec<_>>().into()
    }
}

/// Writes none as an empty string.
impl<T: Show> Show for Option<T> {
    fn show(&self) -> Value {
        self.as_ref().map_or_else(|| "".into(), Show::show)
    }
}
