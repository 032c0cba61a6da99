//! `/v1/fleet`: the fleet as this node sees it.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;
use wayleave_fleet::{FleetState, NodeHead};

use super::response::SafeJson;
use super::state::AdminState;

#[derive(Debug, Serialize, ToSchema)]
struct FleetStatus {
    /// `alone`, `up`, `lost`: the engine does not answer; `beats-failing`: it answers, but not to this node's beats, so that
    /// other nodes may consider this one gone; `clock-off`: there is a key, and this machine's clock differs too much from the
    /// engine's.
    state: &'static str,
    /// For how long the engine has not answered, in seconds.
    lost_for_seconds: Option<u64>,
    last_error: Option<FleetError>,
    /// This node's name.
    node: Option<String>,
    /// All nodes, including this one, as of the last beat.
    members: Vec<FleetMember>,
    /// The decision logs that nodes of the fleet have written, also those of nodes that are gone.
    logs: Vec<FleetLog>,
    engine: Option<FleetEngine>,
    /// The time by which the engine's clock is ahead of this machine's, in milliseconds.
    clock_offset_ms: i64,
    /// The treatment of origins with a delay while the engine is unreachable: `refuse` or `home`.
    on_loss: &'static str,
    /// Slots at origins that requests of this node hold now.
    turns: usize,
    /// Entries learned while the engine was unreachable and not sent to it yet.
    unsettled: usize,
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LastError)]
struct FleetError {
    message: String,
    seconds_ago: u64,
}

#[derive(Debug, Serialize, ToSchema)]
struct FleetMember {
    node: String,
    version: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct FleetLog {
    /// The node that wrote it.
    node: String,
    /// The id of the log.
    log: String,
    /// The time of its newest head that this node knows.
    head_at: String,
    /// The decisions in it then, those in deleted files included.
    decisions: u64,
    /// The decisions that are missing from it, because it was cut back.
    lost_decisions: u64,
    /// The head: a line with a signature.
    head: String,
}

#[derive(Debug, Serialize, ToSchema)]
struct FleetEngine {
    /// Product and version.
    name: String,
    /// The engine's run id, which changes with each restart and failover.
    run_id: String,
    /// The memory that the engine uses, in bytes.
    memory: u64,
    maxmemory_policy: String,
}

impl From<NodeHead> for FleetLog {
    fn from(NodeHead { node, head, .. }: NodeHead) -> Self {
        Self {
            node,
            log: head.count.log.clone(),
            head_at: humantime::format_rfc3339_micros(head.at).to_string(),
            decisions: head.count.total(),
            lost_decisions: head.count.lost_decisions,
            head: head.line,
        }
    }
}

/// The fleet that shares robots.txt entries and delays with this node.
#[utoipa::path(get, path = "/v1/fleet", tag = "proxy", responses((status = 200, body = FleetStatus)))]
pub(super) async fn fleet(State(admin): State<AdminState>) -> Response {
    let status = admin.decider.robots.fleet().status();
    let members = status
        .members
        .into_iter()
        .map(|member| FleetMember { node: member.node, version: member.version });
    let server = status.server;
    SafeJson(FleetStatus {
        state: status.state.as_str(),
        lost_for_seconds: status.lost_for.map(|lost_for| lost_for.as_secs()),
        last_error: status
            .last_error
            .map(|(message, ago)| FleetError { message, seconds_ago: ago.as_secs() }),
        node: (status.state != FleetState::Alone).then_some(status.node),
        members: members.collect(),
        logs: admin.log_heads.list().into_iter().map(FleetLog::from).collect(),
        // Nothing is known of the engine until it has answered a beat.
        engine: (!server.name.is_empty()).then_some(FleetEngine {
            name: server.name,
            run_id: server.run_id,
            memory: server.used_bytes,
            maxmemory_policy: server.eviction_policy,
        }),
        clock_offset_ms: status.clock_offset,
        on_loss: status.on_loss.as_str(),
        turns: status.held_slots,
        unsettled: status.unsettled,
    })
    .into_response()
}
