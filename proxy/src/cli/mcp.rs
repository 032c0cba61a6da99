//! `wayleave mcp`: the tools of a running proxy for agents, over standard input and output.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use http::HeaderValue;
use rmcp::ServiceExt;
use rmcp::transport::stdio;
use wayleave_config::{ListenAddress, ListenProtocol};

use super::admin_client::TOKEN;
use super::config_file::load_keys;
use super::terminal::{CommandResult, failed};
use crate::mcp::McpServer;

#[derive(Debug, Args)]
pub(super) struct McpArguments {
    /// The product token of the crawler that the agent is, such as ExampleBot
    #[arg(long)]
    token: Option<String>,
}

pub(super) fn run(arguments: McpArguments, file: Option<&Path>) -> CommandResult {
    let (config, _) = load_keys(file, &["proxy.listen", "admin.listen"])?;
    let mut listeners = config.proxy.listen.iter();
    let proxy = listeners.find(|listener| listener.protocol == ListenProtocol::Http);
    let authorization = std::env::var(TOKEN).ok().map(|token| format!("Bearer {token}"));
    let authorization = authorization
        .map(|value| {
            HeaderValue::from_str(&value).with_context(|| format!("{TOKEN} cannot be sent"))
        })
        .transpose()
        .map_err(|error| failed(&error))?;
    let server = McpServer {
        admin: ListenAddress::http(config.admin.listen).dialable().address,
        proxy: proxy.map(|listener| listener.dialable().address),
        authorization,
        token: arguments.token,
    };
    serve(server).map_err(|error| failed(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn serve(server: McpServer) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let service = server.serve(stdio()).await?;
        service.waiting().await?;
        Ok(())
    })
}
