//! Crawlers that authenticate with the password `secret`.

use super::crawler::Crawler;

/// The hash of `secret`, cheap to verify.
pub const HASH: &str =
    "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$vk+JgWgZGbXHtEqPQPhzXbD+QxxkJR5Fq2AXLhDyYaY";

/// `news:secret` and `news:wrong`, as values of `Proxy-Authorization`.
pub const RIGHT: &str = "Basic bmV3czpzZWNyZXQ=";
pub const WRONG: &str = "Basic bmV3czp3cm9uZw==";

/// Returns a crawler with a username and the hash of its password.
pub fn crawler(name: &str, username: &str, hash: &str) -> Crawler {
    let crawler = super::crawler::crawler(name, "NewsBot").matched_by("username", username);
    crawler.set("password_hash", hash)
}
