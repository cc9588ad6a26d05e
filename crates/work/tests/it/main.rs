//! The tests of `work`: real repositories, a real git, throwaway homes; no network, and nobody's settings.

mod behind;
mod desk;
mod dispatch;
mod gate;
mod hostile;
mod ignored;
mod kills;
mod links;
mod locks;
mod names;
mod nested;
mod outcomes;
mod owners;
mod places;
mod race;
mod removals;
mod reverts;
mod support;
mod switches;
mod task;
mod workspaces;
