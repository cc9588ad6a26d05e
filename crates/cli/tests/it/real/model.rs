//! A model provider on loopback that says what its user's text asks it to say: the one half of Anthropic's Messages and of
//! OpenAI's Responses that coding agents use. What it was asked, and whether it said all of its answer, is its log.
//!
//! In a text: `[[tool NAME {json}]]` calls a tool, each `[[next NAME {json}]]` another one once the one before has given back
//! (Anthropic's half alone), `[[say TEXT]]` says that, `[[slow N]]` waits N tenths of a second before each of ten pieces (as where
//! it is asked to count), `[[hang connect|headers|mid|ping]]` hangs, `[[err STATUS]]` fails, `[[tokens N]]` counts so many.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// Longest hang; whoever hangs is killed by its test long before.
const HANG: Duration = Duration::from_secs(300);

/// One request for an answer.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The newest text of the user, or what a tool gave back.
    pub(super) last: String,
    /// All that was said until then.
    pub(super) whole: String,
    /// It was a user's text.
    pub(super) is_user: bool,
    /// The answer was said whole, and no tool was called by it.
    pub(super) is_answered: bool,
}

/// The provider.
pub(super) struct Provider {
    pub(super) url: String,
    log: Arc<Mutex<Vec<Asked>>>,
}

impl Provider {
    /// Listens on a port of its own until the test ends.
    pub(super) fn start() -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is up");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let log: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let log = Arc::clone(&kept);
                std::thread::spawn(move || {
                    // A client that goes away ends its connection, and nothing else.
                    let _ = serve(&stream, &log);
                });
            }
        });
        Provider { url, log }
    }

    /// Everything that was asked, oldest first.
    pub(super) fn asked(&self) -> Vec<Asked> {
        self.log.lock().expect("no thread fails with it").clone()
    }

    /// How many answers to a text with this in it were said whole.
    pub(super) fn answers_to(&self, what: &str) -> usize {
        self.asked()
            .iter()
            .filter(|asked| asked.is_answered && asked.is_user && asked.last.contains(what))
            .count()
    }
}

fn serve(stream: &TcpStream, log: &Mutex<Vec<Asked>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let header = |name: &str| {
            let lower = head.to_ascii_lowercase();
            lower.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
        };
        let path =
            head.split(' ').nth(1).unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
        let length = header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut answer = Answer { stream: stream.try_clone()?, sent: 0 };
        match path.as_str() {
            path if path.ends_with("/count_tokens") => {
                answer.plain(200, &json!({"input_tokens": length / 4}))?
            }
            path if path.ends_with("/messages") => anthropic(&request, length, &mut answer, log)?,
            path if path.ends_with("/responses") => responses(&request, length, &mut answer, log)?,
            path if path.ends_with("/models") => answer.plain(200, &json!({"object": "list", "data": []}))?,
            _ => answer
                .plain(404, &json!({"error": {"type": "not_found_error", "message": "no such path"}}))?,
        }
    }
}

/// What is said to a client.
struct Answer {
    stream: TcpStream,
    sent: u64,
}

impl Answer {
    fn plain(&mut self, status: u16, body: &Value) -> std::io::Result<()> {
        let body = body.to_string();
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body.as_bytes())
    }

    fn begin(&mut self) -> std::io::Result<()> {
        self.stream.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
    }

    fn chunk(&mut self, text: &str) -> std::io::Result<()> {
        self.stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes())
    }

    fn event(&mut self, mut event: Value) -> std::io::Result<()> {
        event["sequence_number"] = self.sent.into();
        self.sent += 1;
        let name = event["type"].as_str().unwrap_or_default().to_owned();
        self.chunk(&format!("event: {name}\ndata: {event}\n\n"))
    }

    fn end(&mut self) -> std::io::Result<()> {
        self.stream.write_all(b"0\r\n\r\n")
    }

    /// Says nothing more, or pings for ever, until the client goes away.
    fn hang(&mut self, ping: bool) -> std::io::Result<()> {
        for _ in 0..HANG.as_secs() {
            if ping {
                self.chunk("event: ping\ndata: {\"type\": \"ping\"}\n\n")?;
            }
            let mut byte = [0];
            self.stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            match self.stream.peek(&mut byte) {
                Ok(0) => break,
                Ok(_) => netsky_disk::clock::pause(Duration::from_secs(1)),
                Err(_) => {}
            }
        }
        Err(std::io::ErrorKind::ConnectionAborted.into())
    }
}

/// What a text asks for.
struct Wish {
    say: Vec<String>,
    tool: Option<(String, Value)>,
    hang: Option<String>,
    error: Option<u16>,
    tokens: u64,
    pause: Duration,
}

impl Wish {
    fn of(text: &str, is_user: bool, length: usize) -> Wish {
        let one = |name: &str| {
            let (_, rest) = text.rsplit_once(&format!("[[{name} ")).filter(|_| is_user)?;
            rest.split_once("]]").map(|(what, _)| what.to_owned())
        };
        let tool = one("tool").and_then(|call| {
            let (name, input) = call.split_once(' ')?;
            Some((name.to_owned(), serde_json::from_str(input).ok()?))
        });
        let counts = u64::from(is_user && text.contains("one number a line")) * 2;
        let slow = one("slow").and_then(|tenths| tenths.parse().ok()).unwrap_or(counts);
        let said = one("say").unwrap_or_else(|| match text.contains("Answer with your handoff") {
            true => format!("part {length} is done, the next one is not"),
            false => "well done".to_owned(),
        });
        let pieces = if slow > 0 { vec!["piece ".to_owned(); 10] } else { vec![said] };
        Wish {
            say: if tool.is_some() { Vec::new() } else { pieces },
            tool,
            hang: one("hang"),
            error: one("err").and_then(|status| status.parse().ok()),
            tokens: one("tokens").and_then(|tokens| tokens.parse().ok()).unwrap_or(length as u64 / 4),
            pause: Duration::from_millis(slow * 100),
        }
    }

    fn hangs(&self, at: &str) -> bool {
        self.hang.as_deref() == Some(at)
    }

    fn failure(&self) -> Option<(u16, Value)> {
        let status = self.error?;
        let kind = match status {
            401 => "authentication_error",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "invalid_request_error",
        };
        Some((status, json!({"type": "error", "error": {"type": kind, "code": kind, "message": kind}})))
    }
}

/// Notes a request; where its answer stands in the log.
fn note(log: &Mutex<Vec<Asked>>, said: &Value, last: &str, is_user: bool) -> usize {
    let mut log = log.lock().expect("no thread fails with it");
    log.push(Asked { last: last.to_owned(), whole: said.to_string(), is_user, is_answered: false });
    log.len() - 1
}

fn done(log: &Mutex<Vec<Asked>>, at: usize, wish: &Wish) {
    log.lock().expect("no thread fails with it")[at].is_answered = wish.tool.is_none();
}

fn texts(content: &Value) -> String {
    let parts = content.as_array().map_or_else(|| vec![content], |parts| parts.iter().collect());
    let texts = parts.into_iter().filter_map(|part| part.as_str().or_else(|| part["text"].as_str()));
    texts.filter(|text| !text.trim_start().starts_with("<system-reminder>")).collect::<Vec<_>>().join("\n")
}

/// The call whose turn it is after as many as have given back since the newest text of the user.
fn next_call(messages: &[Value]) -> Option<String> {
    let users = || messages.iter().rev().filter(|message| message["role"] == "user");
    let given = users().take_while(|message| texts(&message["content"]).is_empty()).count();
    let text = texts(&users().nth(given)?["content"]);
    let call = text.split("[[next ").nth(given)?.split_once("]]")?.0.to_owned();
    (given > 0).then(|| format!("[[tool {call}]]"))
}

/// Whether a message of the user asks for something: a text may stand behind what a tool gave back.
fn asks(message: &Value, text: &str) -> bool {
    let gives_back = |parts: &Vec<Value>| parts.iter().any(|part| part["type"] == "tool_result");
    !message["content"].as_array().is_some_and(gives_back) || text.contains("[[")
}

fn anthropic(
    request: &Value,
    length: usize,
    answer: &mut Answer,
    log: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let newest = messages.iter().rev().find(|message| message["role"] == "user").cloned().unwrap_or_default();
    let last = texts(&newest["content"]);
    // Titles and the like are asked for without tools, and without what netsky tells an agent, about the same text.
    let has_tools = request["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let is_main = has_tools || request["system"].to_string().contains("agent of a netsky constellation");
    let wish = match next_call(&messages).filter(|_| is_main) {
        Some(call) => Wish::of(&call, true, length),
        None => Wish::of(&last, is_main && asks(&newest, &last), length),
    };
    let at = if is_main { Some(note(log, &request["messages"], &last, !last.is_empty())) } else { None };
    if let Some((status, body)) = wish.failure() {
        return answer.plain(status, &body);
    }
    if wish.hangs("connect") {
        return answer.hang(false);
    }
    let usage = json!({"input_tokens": wish.tokens, "output_tokens": 7,
        "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0});
    let stop = if wish.tool.is_some() { "tool_use" } else { "end_turn" };
    let mut message = json!({"id": format!("msg_{length}"), "type": "message", "role": "assistant",
        "model": request["model"], "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage});
    if request["stream"] != true {
        message["content"] = json!([{"type": "text", "text": wish.say.concat()}]);
        message["stop_reason"] = stop.into();
        return answer.plain(200, &message);
    }
    answer.begin()?;
    if wish.hangs("headers") {
        return answer.hang(false);
    }
    answer.event(json!({"type": "message_start", "message": message}))?;
    if wish.hangs("ping") {
        return answer.hang(true);
    }
    let (block, kind) = match &wish.tool {
        Some((name, _)) => {
            (json!({"type": "tool_use", "id": format!("toolu_{length}"), "name": name, "input": {}}), "tool")
        }
        None => (json!({"type": "text", "text": ""}), "text"),
    };
    answer.event(json!({"type": "content_block_start", "index": 0, "content_block": block}))?;
    if let (Some((_, input)), "tool") = (&wish.tool, kind) {
        let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
        answer.event(json!({"type": "content_block_delta", "index": 0, "delta": delta}))?;
    }
    for piece in &wish.say {
        netsky_disk::clock::pause(wish.pause);
        let delta = json!({"type": "text_delta", "text": piece});
        answer.event(json!({"type": "content_block_delta", "index": 0, "delta": delta}))?;
        if wish.hangs("mid") {
            return answer.hang(false);
        }
    }
    answer.event(json!({"type": "content_block_stop", "index": 0}))?;
    let delta = json!({"stop_reason": stop, "stop_sequence": null});
    answer.event(json!({"type": "message_delta", "delta": delta, "usage": usage}))?;
    answer.event(json!({"type": "message_stop"}))?;
    answer.end()?;
    if let Some(at) = at {
        done(log, at, &wish);
    }
    Ok(())
}

fn responses(
    request: &Value,
    length: usize,
    answer: &mut Answer,
    log: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    let input = request["input"].as_array().cloned().unwrap_or_default();
    let is_output = |item: &Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_output"));
    let newest = input
        .iter()
        .rev()
        .find(|item| is_output(item) || item["role"] == "user")
        .cloned()
        .unwrap_or_default();
    let is_user = !is_output(&newest);
    // Several may have been put before it together.
    let told = input.iter().rev().take_while(|item| item["role"] != "assistant" && !is_output(item));
    let mut told: Vec<String> =
        told.filter(|item| item["role"] == "user").map(|item| texts(&item["content"])).collect();
    told.reverse();
    let last = if is_user { told.join("\n") } else { newest["output"].to_string() };
    let wish = Wish::of(&last, is_user, length);
    let at = note(log, &request["input"], &last, is_user);
    if let Some((status, body)) = wish.failure() {
        return answer.plain(status, &body);
    }
    if wish.hangs("connect") {
        return answer.hang(false);
    }
    answer.begin()?;
    if wish.hangs("headers") {
        return answer.hang(false);
    }
    let mut whole = json!({"id": format!("resp_{length}"), "object": "response", "status": "in_progress",
        "model": request["model"], "output": [], "usage": null, "error": null});
    answer.event(json!({"type": "response.created", "response": whole}))?;
    if wish.hangs("ping") {
        return answer.hang(true);
    }
    let item = match &wish.tool {
        Some((name, input)) => {
            json!({"type": "function_call", "id": "fc_1", "call_id": format!("call_{length}"),
            "name": name, "arguments": input.to_string(), "status": "completed"})
        }
        None => {
            json!({"type": "message", "id": format!("msg_{length}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": wish.say.concat(), "annotations": []}]})
        }
    };
    answer.event(json!({"type": "response.output_item.added", "output_index": 0, "item": item}))?;
    for piece in &wish.say {
        netsky_disk::clock::pause(wish.pause);
        answer
            .event(json!({"type": "response.output_text.delta", "item_id": item["id"], "output_index": 0,
            "content_index": 0, "delta": piece}))?;
        if wish.hangs("mid") {
            return answer.hang(false);
        }
    }
    answer.event(json!({"type": "response.output_item.done", "output_index": 0, "item": item}))?;
    whole["status"] = "completed".into();
    whole["output"] = json!([item]);
    whole["usage"] = json!({"input_tokens": wish.tokens, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": wish.tokens + 7});
    answer.event(json!({"type": "response.completed", "response": whole}))?;
    answer.end()?;
    done(log, at, &wish);
    Ok(())
}
