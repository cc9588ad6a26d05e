//! I1 and I2 on random lives: whatever is done in whatever order, each accepted envelope is in exactly one folder,
//! and every repeat is flagged and explained by a failure.

use std::collections::BTreeMap;
use std::io;

use netsky_bus::{Bus, Owner};
use netsky_disk::process;
use netsky_model::id::{AgentId, Generation};
use netsky_model::life::{MAX_ATTEMPTS, STATES, State};
use netsky_model::name::{Name, Stage};
use netsky_model::process::ProcessId;
use netsky_model::witness::Nobody;

use crate::home::{Home, OUTSIDE, draft};

const SEEDS: u64 = 40;
const STEPS: usize = 120;

/// What the walk knows of one envelope.
#[derive(Debug, Default)]
struct Known {
    surfaced: Vec<u32>,
    failures: u32,
    acked: bool,
    forwarded: bool,
    retried: bool,
}

struct Walk<'a> {
    home: &'a Home,
    bus: Bus<'a>,
    seed: u64,
    known: BTreeMap<String, Known>,
    generation: u64,
}

impl Walk<'_> {
    fn random(&mut self, below: usize) -> usize {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed % below as u64) as usize
    }

    fn some_id(&mut self) -> Option<String> {
        let nth = self.random(self.known.len().max(1));
        self.known.keys().nth(nth).cloned()
    }

    fn step(&mut self) {
        match self.random(14) {
            0..=2 => self.send(),
            3 | 4 => self.drain(|_| true),
            // Readers that fail at every second envelope.
            5 => self.drain(|n| n % 2 == 0),
            6 => self.claim_and_die(),
            7 => self.end_of_a_generation(),
            8 => self.ack(),
            9 => self.release(),
            10 => self.forward(),
            11 => self.retry(),
            _ => self.send_again(),
        }
    }

    fn send(&mut self) {
        let id = format!("m{}", self.known.len());
        let mut draft = draft(&id);
        draft.id = Some(id.parse().expect("valid"));
        assert!(!self.bus.send(draft).expect("sent").duplicate);
        self.known.insert(id, Known::default());
    }

    fn send_again(&mut self) {
        let Some(id) = self.some_id() else { return };
        let mut draft = draft("another text under a known id");
        draft.id = Some(id.parse().expect("valid"));
        assert!(self.bus.send(draft).expect("answered").duplicate, "{id}");
    }

    fn drain(&mut self, works: impl Fn(usize) -> bool) {
        let mut n = 0;
        let generation = Generation(self.generation);
        let known = &mut self.known;
        // A failed reader ends the drain; the rest waits for the next one.
        let _ = self.bus.drain(&AgentId::root(), 5, generation, |claim| {
            n += 1;
            let one = known.get_mut(claim.id().as_str()).expect("an id of this walk");
            assert_eq!(claim.rendered().contains("redelivered=\"true\""), claim.attempt() > 1);
            if works(n) {
                one.surfaced.push(claim.attempt());
                return Ok(());
            }
            one.failures += 1;
            Err(io::Error::other("the reader is gone"))
        });
    }

    /// One envelope is claimed by a process that is dead by now.
    fn claim_and_die(&mut self) {
        let mut batch = self.bus.claim(&AgentId::root(), 1, OUTSIDE).expect("claimed");
        let Some(claim) = batch.claims.pop() else { return };
        self.known.get_mut(claim.id().as_str()).expect("an id of this walk").failures += 1;
        let me = process::me();
        let own = self.home.names(State::Claimed);
        let file = own.iter().find(|file| file.contains(&format!("-{}.", claim.id()))).expect("claimed");
        let dead = ProcessId { start_time: me.start_time + 1, ..me };
        let name = Name::parse(file).expect("a name").to(Stage::Claimed(dead));
        self.home.forge((State::Claimed, file), (State::Claimed, &name.to_string()));
    }

    fn end_of_a_generation(&mut self) {
        let ended = self.generation;
        for file in self.home.names(State::Delivered) {
            let name = Name::parse(&file).expect("a name");
            if name.stage == Stage::Taken(Generation(ended)) {
                self.known.get_mut(name.key.id.as_str()).expect("an id of this walk").failures += 1;
            }
        }
        self.bus.return_generations(&AgentId::root(), |g| g.0 <= ended).expect("returned");
        self.generation += 1;
    }

    fn ack(&mut self) {
        let Some(id) = self.some_id() else { return };
        if self.known[&id].forwarded {
            return assert!(self.bus.ack(&AgentId::root(), &id).is_err(), "it is finished");
        }
        self.bus.ack(&AgentId::root(), &id).expect("it is somewhere");
        self.known.get_mut(&id).expect("known").acked = true;
    }

    fn release(&mut self) {
        let Some(id) = self.some_id() else { return };
        if let Ok(released) = self.bus.take_back(&AgentId::root(), &id, Owner::Spared) {
            self.known.get_mut(&id).expect("known").failures += u32::from(!released.already);
        }
    }

    fn forward(&mut self) {
        let Some(id) = self.some_id() else { return };
        let target = AgentId::numbered(2);
        if self.bus.forward(&AgentId::root(), &id, &target, &AgentId::root().into()).is_ok() {
            self.known.get_mut(&id).expect("known").forwarded = true;
        }
    }

    fn retry(&mut self) {
        let Some(id) = self.some_id() else { return };
        if self.bus.retry(&AgentId::root(), &id).is_ok() {
            let known = self.known.get_mut(&id).expect("known");
            known.retried = true;
        }
    }

    fn check(&self) {
        let mut found: BTreeMap<String, (State, u32)> = BTreeMap::new();
        for state in STATES {
            for file in self.home.names(state) {
                let name = Name::parse(&file).unwrap_or_else(|| panic!("{file} in {state}"));
                let before = found.insert(name.key.id.to_string(), (state, name.attempt));
                assert_eq!(before, None, "I1: {file} is in {state} and elsewhere");
            }
        }
        assert!(found.keys().eq(self.known.keys()), "I1: {:?} of {:?}", found.keys(), self.known.keys());
        for (id, known) in &self.known {
            let (state, attempt) = found[id];
            assert!(known.surfaced.is_sorted_by(|a, b| a < b), "I2: {id} {known:?}");
            // Who is retried by hand, however often, has one attempt more than the failures explain each time.
            if !known.retried {
                assert!(
                    attempt <= MAX_ATTEMPTS && attempt <= known.failures + 1,
                    "I2: {id} {attempt} {known:?}"
                );
            }
            assert!(known.surfaced.len() as u32 <= known.failures + 1, "I2: {id} {known:?}");
            assert_eq!(state == State::Acked, known.acked, "{id} {state} {known:?}");
            assert_eq!(state == State::Forwarded, known.forwarded, "{id} {state} {known:?}");
            assert!(state != State::Poisoned || known.failures >= MAX_ATTEMPTS, "{id} {known:?}");
        }
    }
}

#[test]
fn i1_i2_random_lives_lose_nothing_double_nothing_and_flag_every_repeat() {
    let mut reached: BTreeMap<State, usize> = BTreeMap::new();
    for seed in 1..=SEEDS {
        let home = Home::new();
        home.bus(&Nobody).create(&AgentId::root()).expect("made");
        home.bus(&Nobody).create(&AgentId::numbered(2)).expect("made");
        let mut walk = Walk {
            home: &home,
            bus: home.bus(&Nobody),
            seed: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            known: BTreeMap::new(),
            generation: 1,
        };
        for step in 0..STEPS {
            walk.step();
            if step % 10 == 0 {
                walk.check();
            }
        }
        walk.check();
        for state in STATES {
            *reached.entry(state).or_default() += home.names(state).len();
        }
    }
    assert!(reached.values().all(|count| *count > 0), "every state is reached: {reached:?}");
}
