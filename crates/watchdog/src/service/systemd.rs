//! The units of systemd's user manager, as text.

use super::{FAILSAFE_S, File, PAGE, Plan, look::marked};

/// How the units of a home are called.
pub(super) struct Names {
    pub(super) ticker: String,
    pub(super) failsafe: String,
    pub(super) page: String,
    pub(super) timer: String,
}

impl Names {
    pub(super) fn of(suffix: &str) -> Names {
        Names {
            ticker: format!("netsky-ticker{suffix}.service"),
            failsafe: format!("netsky-failsafe{suffix}.service"),
            page: format!("netsky-failsafe-page{suffix}.service"),
            timer: format!("netsky-failsafe{suffix}.timer"),
        }
    }
}

/// What is started by the units lives on when they stop: agents, their anchor, whoever keeps them.
const LIVES_ON: &str = "KillMode=process\nDelegate=yes\nOOMPolicy=continue\nTasksMax=infinity\n";

pub(super) fn files(plan: &Plan) -> Vec<File> {
    let names = Names::of(&plan.suffix);
    let words = Words::of(plan);
    let texts = [
        (&names.page, page(&words)),
        (&names.failsafe, failsafe(&words, &names)),
        (&names.timer, timer(&words, &names)),
        (&names.ticker, ticker(&words, plan)),
    ];
    let home = || words.home.clone();
    texts.map(|(name, text)| File { name: name.clone(), text: marked("# ", "", &text), home: home() }).into()
}

/// What several units say of a plan, as it is written there.
struct Words {
    home: String,
    there: String,
    environment: String,
    program: String,
}

impl Words {
    fn of(plan: &Plan) -> Words {
        let home = specifiers(&plan.home);
        Words {
            there: format!("ConditionPathExists={home}/home.json"),
            environment: format!("Environment={}", quoted(&format!("NETSKY_HOME={}", plan.home))),
            // The colon: a `$` in a path is a `$`.
            program: quoted(&format!(":{}", plan.program)),
            home,
        }
    }
}

fn page(Words { home, environment, .. }: &Words) -> String {
    let script = quoted(PAGE);
    format!(
        "[Unit]
Description=says that the failsafe of netsky failed for {home}, without netsky
StartLimitIntervalSec=1h
StartLimitBurst=1

[Service]
Type=oneshot
UMask=0077
{environment}
ExecStart=:/bin/sh -c {script}
"
    )
}

fn failsafe(Words { home, there, environment, program }: &Words, names: &Names) -> String {
    let page = &names.page;
    format!(
        "[Unit]
Description=starts what netsky lacks in {home}, where nobody else does
{there}
OnFailure={page}
StartLimitIntervalSec=0

[Service]
Type=oneshot
{environment}
ExecStart={program} tick --failsafe
TimeoutStartSec=180
{LIVES_ON}"
    )
}

fn timer(Words { home, .. }: &Words, names: &Names) -> String {
    let failsafe = &names.failsafe;
    format!(
        "[Unit]
Description=has the failsafe of netsky look after {home}, again and again

[Timer]
OnBootSec=30
OnUnitActiveSec={FAILSAFE_S}
AccuracySec=5
Unit={failsafe}

[Install]
WantedBy=timers.target
"
    )
}

fn ticker(Words { home, there, environment, program }: &Words, plan: &Plan) -> String {
    let (interval, watchdog) = (plan.interval.as_millis(), plan.hangs_after().as_millis());
    format!(
        "[Unit]
Description=ticks for {home}, the home of netsky
{there}
StartLimitIntervalSec=0

[Service]
Type=notify
{environment}
ExecStart={program} ticker --service --tick {interval}ms
WatchdogSec={watchdog}ms
WatchdogSignal=SIGKILL
TimeoutStopSec=10
Restart=always
RestartSec=10
{LIVES_ON}
[Install]
WantedBy=default.target
"
    )
}

/// `%` begins a specifier everywhere.
fn specifiers(text: &str) -> String {
    text.replace('%', "%%")
}

/// One word of a line that is split into words.
fn quoted(text: &str) -> String {
    format!("\"{}\"", specifiers(text).replace('\\', "\\\\").replace('"', "\\\""))
}
