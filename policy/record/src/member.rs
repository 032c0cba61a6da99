//! The macro `record!`, which makes of one list of members the structure, its reader, its schema, and the writer of lines. The
//! list of a decision's members is in `decision_record`.
//!
//! Serde could write the lines as well, but takes twice as long (see [`JsonObject`]). A test compares the two.

use std::borrow::Cow;
use std::net::IpAddr;
use std::time::SystemTime;

use wayleave_notation::Sha256Digest;
use wayleave_notation::json_object::JsonObject;

use super::decision_id::DecisionId;
use super::finding::{FindingRecord, PaymentRecord, RuleRecord, SubresourceRecord};
use super::logged_client::LoggedClient;
use super::use_preference::{DocumentRecord, UsePreference};
use super::word::{ClosedSet, Word};

/// Defines a record by its members, in the order of the line.
///
/// - `name: Type` is in every line.
/// - `name?: Type` is left out if it says nothing: `None`, `false` or an empty list. A line need not have it.
/// - `..name: Option<Type>` stands for the members of another record.
macro_rules! record {
    ($(#[$outer:meta])* pub struct $record:ident { $($rows:tt)* }) => {
        record! { @ [$(#[$outer])* $record] [] [] $($rows)* }
    };
    (@ $head:tt [$($fields:tt)*] [$($listed:ident)*]
        $(#[$meta:meta])* $member:ident: $type:ty, $($rows:tt)*) => {
        record! { @ $head [$($fields)* $(#[$meta])* pub $member: $type,] [$($listed)* $member] $($rows)* }
    };
    (@ $head:tt [$($fields:tt)*] [$($listed:ident)*]
        $(#[$meta:meta])* $member:ident?: $type:ty, $($rows:tt)*) => {
        record! {
            @ $head
            [
                $($fields)*
                $(#[$meta])*
                #[serde(default, skip_serializing_if = "crate::member::Member::is_absent")]
                pub $member: $type,
            ]
            [$($listed)* $member]
            $($rows)*
        }
    };
    (@ $head:tt [$($fields:tt)*] [$($listed:ident)*]
        $(#[$meta:meta])* ..$member:ident: $type:ty, $($rows:tt)*) => {
        record! {
            @ $head
            [$($fields)* $(#[$meta])* #[serde(flatten)] pub $member: $type,]
            [$($listed)* $member]
            $($rows)*
        }
    };
    (@ [$(#[$outer:meta])* $record:ident] [$($fields:tt)*] [$($listed:ident)*]) => {
        // First, so that attributes for these come after them.
        #[derive(serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        $(#[$outer])*
        pub struct $record {
            $($fields)*
        }

        impl $record {
            /// Writes the members that serde would write, in the same order.
            pub fn write_members(
                &self,
                object: &mut wayleave_notation::json_object::JsonObject<'_>,
            ) {
                $(if !crate::member::Member::is_absent(&self.$listed) {
                    crate::member::Member::write(&self.$listed, stringify!($listed), object);
                })*
            }
        }
    };
}

/// The type of a member.
pub(crate) trait Member {
    /// Returns whether a line leaves the member out, if it may.
    fn is_absent(&self) -> bool {
        false
    }

    /// Adds the member to an object.
    fn write(&self, name: &str, object: &mut JsonObject<'_>);
}

macro_rules! written {
    ($($method:ident: $($type:ty),+;)+) => {
        $($(impl Member for $type {
            fn write(&self, name: &str, object: &mut JsonObject<'_>) {
                object.$method(name, Some(self));
            }
        })+)+
    };
}

written! {
    text: String, Cow<'static, str>;
    unescaped: u16, u32, u64, usize, IpAddr, LoggedClient;
    display: DecisionId, Sha256Digest;
}

impl<T: ClosedSet> Member for Word<T> {
    fn write(&self, name: &str, object: &mut JsonObject<'_>) {
        object.text(name, Some(self));
    }
}

impl Member for SystemTime {
    fn write(&self, name: &str, object: &mut JsonObject<'_>) {
        object.display(name, Some(humantime::format_rfc3339_micros(*self)));
    }
}

impl Member for bool {
    fn is_absent(&self) -> bool {
        !self
    }

    fn write(&self, name: &str, object: &mut JsonObject<'_>) {
        object.unescaped(name, Some(self));
    }
}

impl<T: Member> Member for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn write(&self, name: &str, object: &mut JsonObject<'_>) {
        if let Some(member) = self {
            member.write(name, object);
        }
    }
}

impl Member for Vec<String> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, name: &str, object: &mut JsonObject<'_>) {
        object.texts(name, self);
    }
}

impl<T: ClosedSet> Member for Vec<Word<T>> {
    fn is_absent(&self) -> bool {
        self.is_empty()
    }

    fn write(&self, name: &str, object: &mut JsonObject<'_>) {
        object.texts(name, self);
    }
}

/// Objects of their own, alone and in lists.
macro_rules! nested {
    ($($record:ty),+) => {
        $(impl Member for $record {
            fn write(&self, name: &str, object: &mut JsonObject<'_>) {
                object.object(name, |members| self.write_members(members));
            }
        }

        impl Member for Vec<$record> {
            fn is_absent(&self) -> bool {
                self.is_empty()
            }

            fn write(&self, name: &str, object: &mut JsonObject<'_>) {
                object.objects(name, self, <$record>::write_members);
            }
        })+
    };
}

nested!(RuleRecord, SubresourceRecord, UsePreference, DocumentRecord);

/// Objects whose members are those of the object that they are in.
macro_rules! flattened {
    ($($record:ty),+) => {
        $(impl Member for $record {
            fn write(&self, _name: &str, object: &mut JsonObject<'_>) {
                self.write_members(object);
            }
        })+
    };
}

flattened!(FindingRecord, PaymentRecord);

impl<T: Member> Member for Box<T> {
    fn write(&self, name: &str, object: &mut JsonObject<'_>) {
        (**self).write(name, object);
    }
}
