//! The engine of a node without a fleet: every claim is a fetch, every slot is free, and there are no notes.

use std::time::Duration;

use async_trait::async_trait;

use super::engine::{
    Answer, Beat, Changes, Claim, Claimed, Engine, Failure, Positions, Record, Settled, Settlement,
    Taken, Turn,
};

/// An engine that shares nothing.
#[derive(Debug)]
pub struct Alone;

#[async_trait]
impl Engine for Alone {
    fn is_shared(&self) -> bool {
        false
    }

    fn partition(&self, _: &str) -> usize {
        0
    }

    async fn claim(&self, _: &Claim) -> Result<Claimed, Failure> {
        Ok(Claimed::Fetch {
            token: 0,
            older: None,
        })
    }

    async fn settle(&self, _: &Settlement) -> Result<Settled, Failure> {
        Ok(Settled::Kept)
    }

    async fn record(&self, _: &str) -> Result<Option<Record>, Failure> {
        Ok(None)
    }

    async fn changes(&self, _: &Positions) -> Result<Changes, Failure> {
        Ok(Changes::default())
    }

    async fn take(&self, _: &Turn) -> Result<Taken, Failure> {
        Ok(Taken::Go)
    }

    async fn leave(&self, _: &Turn) -> Result<(), Failure> {
        Ok(())
    }

    async fn answered(&self, _: &Answer) -> Result<Option<Duration>, Failure> {
        Ok(None)
    }

    async fn resting(&self, _: usize) -> Result<Vec<(String, Duration)>, Failure> {
        Ok(Vec::new())
    }

    async fn beat(&self, _: &str) -> Result<Beat, Failure> {
        Ok(Beat::default())
    }
}
