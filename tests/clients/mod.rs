//! Real clients and crawlers that use the proxy as the documents say. Their programs are in this folder, too.

pub mod code_blocks;
pub mod crawl;
pub mod env;
mod handling;
mod mcp;
mod mcp_fetch;
mod passwords;
mod recipes;
mod run;
pub mod snippets;
mod stacks;
mod subresources;
