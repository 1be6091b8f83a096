// Keep the state of every node by following CHANGES with a durable consumer: a whole service to start from.
//
//     npm install
//     node follow_changes.mjs nats://127.0.0.1:4222 http://127.0.0.1:8470 state.json
//
// What it knows and how far it is are one file, written at once, so it may be killed at any moment. Each line
// that it prints is what a real service would act upon.

import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { AckPolicy, DeliverPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";

const STREAM = "CHANGES";
const DURABLE = process.env.DURABLE ?? "example-javascript";
const AT_ONCE = 200;
// A fact is announced within a second of being stored: long after a snapshot, none before it is to come.
const MARGIN_MS = 5 * 60 * 1000;

const [url, api, file] = process.argv.slice(2);

// What the service knows: each node's state, the position in the log, and the one in the stream.
let known = { nodes: {}, cursor: "", stream: "", seq: 0 };
if (existsSync(file)) known = JSON.parse(readFileSync(file, "utf8"));

function save() {
  writeFileSync(`${file}.new`, JSON.stringify(known));
  renameSync(`${file}.new`, file);
}

// Act: here, print.
const say = (what, more) => console.log(JSON.stringify({ what, ...more }));

// The life of the log that a cursor belongs to.
const epochOf = (cursor) => cursor.split("/")[0];

// Whether a change of the same log is part of what is known: <epoch>/<seq>/<n>, or <epoch>/<seq> after all of a fact.
function isKnown(cursor) {
  const [seq, n = 2 ** 31] = cursor.split("/").slice(1).map(Number);
  const [knownSeq, knownN = 2 ** 31] = known.cursor.split("/").slice(1).map(Number);
  return seq < knownSeq || (seq === knownSeq && n <= knownN);
}

// Every node's state, retired ones too, and the `as_of` that all of it includes at least. Later pages may be newer
// than the first one. That does no harm: what made them newer comes again.
async function readNodes() {
  const nodes = {};
  let asOf = null;
  let more = "";
  for (;;) {
    const answer = await fetch(`${api}/fleet/v1/nodes?include_retired=true&limit=1000${more}`);
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
    const page = await answer.json();
    asOf ??= page.as_of;
    for (const node of page.items) nodes[node.id] = node.state;
    if (page.next_cursor === null) return { nodes, asOf };
    more = `&cursor=${page.next_cursor}`;
  }
}

// Know what is now, of the log of an epoch where one is named.
async function takeSnapshot(epoch) {
  for (;;) {
    const { nodes, asOf } = await readNodes();
    if (epoch === undefined ? asOf.epoch : asOf.epoch === epoch) {
      known.nodes = nodes;
      known.cursor = `${asOf.epoch}/${asOf.seq}`;
      say("snapshot", { cursor: known.cursor, nodes });
      return Date.parse(asOf.time);
    }
    await sleep(200); // the API folds another log still, or none
  }
}

// When the stream was created: one that was made again is another one.
const created = async (manager) => (await manager.streams.info(STREAM)).created;

// Take a snapshot, and follow from shortly before it.
async function begin(manager) {
  const at = Math.min(await takeSnapshot(), Date.now()) - MARGIN_MS;
  await manager.consumers.delete(STREAM, DURABLE).catch(() => {}); // the first time, or it went with its stream
  known.stream = await created(manager);
  known.seq = 0;
  await manager.consumers.add(STREAM, {
    durable_name: DURABLE,
    ack_policy: AckPolicy.Explicit,
    deliver_policy: DeliverPolicy.StartTime,
    opt_start_time: new Date(at).toISOString(),
  });
  save();
}

// Handle one message, once: what came again changes nothing.
async function handle(message) {
  const seq = message.seq;
  if (seq <= known.seq) {
    message.ack(); // handled before; its acknowledgement was lost
    return;
  }
  if (known.seq && seq !== known.seq + 1) {
    say("gap", { first: known.seq + 1, last: seq - 1 }); // they expired before we came
    await takeSnapshot();
  }
  const change = message.json().data;
  if (change.kind === "log") {
    if (change.before.epoch === epochOf(known.cursor)) {
      say("epoch", { detail: change.detail, cursor: change.cursor });
      await takeSnapshot(change.after.epoch);
    }
  } else if (epochOf(change.cursor) === epochOf(known.cursor) && !isKnown(change.cursor)) {
    if (change.kind === "state") known.nodes[change.node_id] = change.after.state;
    known.cursor = change.cursor;
    const { cursor, node_id, kind, detail, after } = change;
    say("change", { cursor, node_id, kind, detail, after });
  }
  known.seq = seq;
  save();
  message.ack();
}

// Follow one life of the stream; return when it was made again.
async function follow(connection) {
  const manager = await jetstreamManager(connection);
  if (known.stream !== (await created(manager))) await begin(manager);
  const consumer = await jetstream(connection).consumers.get(STREAM, DURABLE);
  for (;;) {
    let count = 0;
    for await (const message of await consumer.fetch({ max_messages: AT_ONCE, expires: 1000 })) {
      await handle(message);
      count += 1;
    }
    if (count === 0 && known.stream !== (await created(manager))) return;
  }
}

const connection = await connect({ servers: url, maxReconnectAttempts: -1 });
for (;;) {
  try {
    await follow(connection);
  } catch (error) {
    console.error(`again in a second: ${error}`);
    await sleep(1000);
  }
}
