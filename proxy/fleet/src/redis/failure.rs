//! The causes of failed calls, in words that suggest a remedy.

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};

use super::scripts::LuaScript;
use crate::engine::EngineFailure;

/// Returns the failure of a command.
pub(super) fn command_failure(error: &RedisError) -> EngineFailure {
    // The number of the system error only repeats its text.
    let text = error.to_string().split(" (os error").next().unwrap_or_default().to_owned();
    match error.code() {
        Some("OOM") => return EngineFailure::Full,
        // One key is damaged; the engine works.
        Some("WRONGTYPE") => return EngineFailure::Corrupt(text),
        Some("NOPERM") => return EngineFailure::Denied(text),
        Some("NOAUTH") => {
            return EngineFailure::Denied(
                "the engine requires a password: set store.password_file".to_owned(),
            );
        }
        _ => {}
    }
    match error.kind() {
        // Within a script the error has the script's code, so only the text tells.
        _ if text.contains("command not allowed when used memory") => EngineFailure::Full,
        _ if text.contains("read only replica") => EngineFailure::Connection(
            "the server is a read-only replica: name the primary in store.url".to_owned(),
        ),
        _ if text.contains("permissions") || text.contains("can't run this command") => {
            EngineFailure::Denied(text)
        }
        ErrorKind::AuthenticationFailed => {
            EngineFailure::Denied("the engine rejected this user or password".to_owned())
        }
        _ if text.contains("WRONGTYPE") => EngineFailure::Corrupt(text),
        ErrorKind::Parse | ErrorKind::UnexpectedReturnType => EngineFailure::Corrupt(text),
        _ if error.is_timeout() => EngineFailure::Timeout,
        _ if text.contains("cluster support disabled") => EngineFailure::Connection(
            "store.cluster is set, but the server is not part of a cluster".to_owned(),
        ),
        ErrorKind::Server(ServerErrorKind::ResponseError) => EngineFailure::Corrupt(text),
        _ => EngineFailure::Connection(text),
    }
}

/// Returns the failure of a script. The server names the line that the user has no right to run, but not the command.
pub(super) fn script_failure(error: &RedisError, script: &LuaScript) -> EngineFailure {
    match command_failure(error) {
        EngineFailure::Denied(text) if text.contains("can't run this command") => {
            let line = text
                .rsplit("user_script:")
                .next()
                .unwrap_or_default()
                .trim_end_matches('.')
                .parse()
                .unwrap_or(usize::MAX);
            EngineFailure::Denied(match command_at(script.code, line) {
                Some(command) => format!("the user lacks the right +{command} ({})", script.file),
                None => text,
            })
        }
        failure => failure,
    }
}

/// Returns the command of the call on this line of a script, which may begin on a line before.
fn command_at(code: &str, line: usize) -> Option<String> {
    let calls = code.lines().take(line).filter_map(|line| line.rsplit_once("call('"));
    let (_, call) = calls.last()?;
    Some(call.split('\'').next()?.to_lowercase())
}

/// Returns the failure to open a connection.
pub(super) fn connect_failure(
    error: &RedisError,
    is_tls: bool,
    timeout: Duration,
) -> EngineFailure {
    match command_failure(error) {
        EngineFailure::Connection(text) if text.contains("UnknownIssuer") => {
            EngineFailure::Connection(format!(
                "{text}: neither store.ca_file nor the system has the CA of the engine's certificate"
            ))
        }
        EngineFailure::Connection(text)
            if !is_tls && error.is_connection_dropped() && !error.is_connection_refusal() =>
        {
            EngineFailure::Connection(format!(
                "{text}: if the port uses TLS, store.url must begin with rediss:"
            ))
        }
        EngineFailure::Timeout => silence_failure(is_tls, timeout),
        failure => failure,
    }
}

/// Returns the failure of a connection that was accepted and then silent.
pub(super) fn silence_failure(is_tls: bool, timeout: Duration) -> EngineFailure {
    let hint = if is_tls {
        ": if the port does not use TLS, store.url must begin with redis:"
    } else {
        ""
    };
    EngineFailure::Connection(format!("no connection within {timeout:?}{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_found_by_the_line_it_is_on_or_began_on() {
        let code =
            "-- redis\nlocal a = redis.call('GET', key)\nredis.call('XADD', log,\n  'n', a)\n";
        let at = |line| command_at(code, line);
        assert_eq!(
            [1, 2, 3, 4].map(at),
            [None, Some("get".to_owned()), Some("xadd".to_owned()), Some("xadd".to_owned())]
        );
    }
}
