//! The agents of launchd, as text.

use super::{FAILSAFE_S, File, PAGE, Plan, look::marked};

/// How the agents of a home are called.
pub(super) fn labels(suffix: &str) -> [String; 2] {
    ["failsafe", "ticker"].map(|what| format!("netsky.{what}{suffix}"))
}

pub(super) fn files(plan: &Plan) -> Vec<File> {
    let [failsafe, ticker] = labels(&plan.suffix);
    let interval = format!("{}ms", plan.interval.as_millis());
    // launchd tells nobody of what failed: a shell that is not this program looks.
    let failing = format!("\"$0\" tick --failsafe || {{ {PAGE}; }}");
    let times = format!("<key>StartInterval</key><integer>{FAILSAFE_S}</integer>");
    let kept = "<key>KeepAlive</key><true/>\n    <key>ThrottleInterval</key><integer>10</integer>";
    vec![
        agent(plan, &failsafe, &["/bin/sh", "-c", &failing, &plan.program], &times),
        agent(plan, &ticker, &[&plan.program, "ticker", "--service", "--tick", &interval], kept),
    ]
}

fn agent(plan: &Plan, label: &str, words: &[&str], when: &str) -> File {
    let words: String =
        words.iter().map(|word| format!("\n        <string>{}</string>", escaped(word))).collect();
    let home = escaped(&plan.home);
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">
<plist version=\"1.0\">
<dict>
    <key>Label</key><string>{label}</string>
    <key>ProgramArguments</key>
    <array>{words}
    </array>
    <key>EnvironmentVariables</key>
    <dict><key>NETSKY_HOME</key><string>{home}</string></dict>
    <key>RunAtLoad</key><true/>
    <key>AbandonProcessGroup</key><true/>
    {when}
</dict>
</plist>
"
    );
    // What is before an XML declaration makes it none, so the mark stands at the end.
    File { name: format!("{label}.plist"), text: marked("<!-- ", " -->", &text), home }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
