//! The engine of a node without a fleet: every claim is a fetch, every slot is free, and there are no notes.

use std::time::Duration;

use async_trait::async_trait;

use super::engine::{
    BeatAnswer, BudgetAnswer, BudgetReport, ChangeBatch, ClaimAnswer, EngineFailure, FetchClaim,
    LogPositions, PacingResponse, SettleAnswer, Settlement, SharedEngine, SharedRecord, SlotAnswer,
    SlotRequest,
};
use super::pace_turn::{PaceTurn, PaceTurnAnswer};

/// An engine that shares nothing.
#[derive(Debug)]
pub(crate) struct LoneEngine;

#[async_trait]
impl SharedEngine for LoneEngine {
    fn is_shared(&self) -> bool {
        false
    }

    fn partition(&self, _: &str) -> usize {
        0
    }

    async fn claim(&self, _: &FetchClaim) -> Result<ClaimAnswer, EngineFailure> {
        Ok(ClaimAnswer::Fetch { token: 0, older: None })
    }

    async fn settle(&self, _: &Settlement) -> Result<SettleAnswer, EngineFailure> {
        Ok(SettleAnswer::Kept)
    }

    async fn record(&self, _: &str) -> Result<Option<SharedRecord>, EngineFailure> {
        Ok(None)
    }

    async fn changes(&self, _: &LogPositions) -> Result<ChangeBatch, EngineFailure> {
        Ok(ChangeBatch::default())
    }

    async fn take_slot(&self, _: &SlotRequest) -> Result<SlotAnswer, EngineFailure> {
        Ok(SlotAnswer::Granted)
    }

    async fn release_slot(&self, _: &SlotRequest) -> Result<(), EngineFailure> {
        Ok(())
    }

    async fn answered(&self, _: &PacingResponse) -> Result<Option<Duration>, EngineFailure> {
        Ok(None)
    }

    async fn resting(&self, _: usize) -> Result<Vec<(String, Duration)>, EngineFailure> {
        Ok(Vec::new())
    }

    async fn spend(&self, _: &BudgetReport) -> Result<BudgetAnswer, EngineFailure> {
        Ok(BudgetAnswer::default())
    }

    async fn take_pace_turn(&self, _: &PaceTurn) -> Result<PaceTurnAnswer, EngineFailure> {
        Err(EngineFailure::Connection("there is no fleet".to_owned()))
    }

    async fn heads(&self) -> Result<Vec<(String, Vec<u8>)>, EngineFailure> {
        Ok(Vec::new())
    }

    async fn replace_head(
        &self,
        _: &str,
        _: &[u8],
        _: &[u8],
        _: Duration,
    ) -> Result<Option<Vec<u8>>, EngineFailure> {
        Ok(None)
    }

    async fn beat(&self, _: &str) -> Result<BeatAnswer, EngineFailure> {
        Ok(BeatAnswer::default())
    }
}
