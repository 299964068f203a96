// What was said in a session, and, struck through, what a rollback took back of it.
//
// The conversation as it stands has no turn that was taken back: the moment of the whole namespace
// that was the last before the rollback has those that were said by then.

import { html, useState } from "../vendor/preact.js";
import { namespaceOf } from "./api.js";
import { Button, Failed, Moment, Said, Waiting, useAnswer } from "./parts.js";
import * as state from "./state.js";
import { many, plain } from "./text.js";

/** Of one text, so much is shown. */
export const MOST_SAID = 4000;
const PAGE = 50;
const MOST_ROLLBACKS = 5; // The newest; each takes two requests.

export function Turns({ info, chosen }) {
  const { namespace } = state.route.value;
  const asked = namespaceOf(namespace);
  const [after, setAfter] = useState([]);
  const answer = useAnswer(
    (stop) => asked.turns(info.id, { limit: PAGE, starting_after: after.at(-1) }, stop),
    [namespace, info.id, after.at(-1)],
    { turn: `${info.version} ${info.turn_count}` },
  );
  const version = useAnswer(
    (stop) => asked.versions(info.id, { since_version: chosen - 1, limit: 1 }, stop),
    [namespace, info.id, chosen],
  );
  const taken = useAnswer((stop) => findTaken(asked, info, stop), [namespace, info.id], {
    turn: info.version,
  });
  if (answer.failure) return html`<${Failed} failure=${answer.failure}
    again=${() => (setAfter([]), answer.again())} />`;
  if (!answer.value) return html`<${Waiting} />`;
  const turns = [...answer.value.data].reverse();
  const isNewest = after.length === 0;
  const gone = goneAmong(taken.value ?? [], turns, isNewest);
  if (!turns.length && !gone.length) return html`<p class="quiet">Nothing was said yet.</p>`;
  const reached = chosen === info.version ? Infinity : version.value?.data[0]?.turn_count;
  const takenAt = (number) =>
    gone
      .filter((each) => each.edge === number)
      .map((each) => html`<${Taken} key=${`by ${each.version}`} each=${each} />`);
  return html`
    ${answer.value.has_more && html`<div class="bar"><${Button} onClick=${() => setAfter([...after,
      turns[0].id])}>Earlier turns<//></div>`}
    <ol class="turns">${takenAt((turns[0]?.turn_number ?? 1) - 1)}${turns.map((turn) => html`
      ${turn.turn_number === reached + 1 && html`<li class="turn-edge" key="edge">
        <span>said after version ${chosen}</span></li>`}
      <${Turn} key=${turn.id} turn=${turn} isAfter=${turn.turn_number > reached} />
      ${takenAt(turn.turn_number)}`)}</ol>
    ${taken.failure && html`<p class="quiet">What was taken back cannot be shown now.</p>`}
    ${!isNewest && html`<div class="bar"><${Button} onClick=${() => setAfter(after.slice(0,
      -1))}>Later turns<//></div>`}`;
}

/**
 * Asks for what the last rollbacks found beyond where they went: `{version, edge, turns, isCut}` of
 * each, oldest first.
 *
 * One that left the conversation alone has as many turns as the version before it, or more.
 */
async function findTaken(asked, info, stop) {
  const since = Math.max(-1, info.version - PAGE);
  const { data: versions } = await asked.versions(info.id, { since_version: since, limit: PAGE },
    stop);
  const rollbacks = versions
    .filter((each, at) => each.kind === "rollback" && each.turn_count <=
      (versions[at - 1]?.turn_count ?? Infinity))
    .slice(-MOST_ROLLBACKS);
  const found = [];
  for (const { version, turn_count: edge, created_at: until } of rollbacks) {
    const { snapshots } = await asked.timeline({ until, limit: 1 }, stop);
    if (!snapshots.length) continue;
    const turns = await turnsAt(asked, info.id, snapshots[0].snapshot_id, stop);
    const beyond = turns.filter((turn) => turn.turn_number > edge);
    found.push({ version, edge, turns: beyond, isCut: beyond.length === PAGE });
  }
  return found;
}

/** The newest turns of the conversation that a moment shows; none where it has no such session. */
async function turnsAt(asked, id, at, stop) {
  try {
    return (await asked.turns(id, { at, limit: PAGE }, stop)).data;
  } catch (failure) {
    if (failure.status === 404) return [];
    throw failure;
  }
}

/**
 * Returns what of that is not in the conversation, oldest turn first: where a page shows another
 * turn of the same number, or where the conversation ends before it.
 */
function goneAmong(taken, turns, isNewest) {
  const first = turns[0]?.turn_number ?? 1;
  const last = turns.at(-1)?.turn_number ?? 0;
  const seen = new Set(turns.map((turn) => turn.id));
  return taken
    .map((each) => ({
      ...each,
      turns: each.turns
        .filter((turn) => {
          if (seen.has(turn.id) || (turn.turn_number > last && !isNewest)) return false;
          return seen.add(turn.id);
        })
        .reverse(),
    }))
    .filter((each) => each.turns.length && each.edge >= first - 1 && each.edge <= last);
}

const Taken = ({ each }) => html`<li class="taken"><details>
  <summary>${many(each.turns.length, "turn")}${each.isCut ? " or more" : ""} taken back by version${" "}
    ${each.version}</summary>
  <ol class="turns">${each.turns.map((turn) => html`<${Turn} key=${turn.id} turn=${turn} isTaken />`)}
  </ol></details></li>`;

const textOf = (side) => (typeof side?.content === "string" ? side.content : JSON.stringify(side));

function Turn({ turn, isAfter, isTaken }) {
  const side = (words, content) => {
    const text = textOf(content);
    return html`<div class=${`speech ${words}`}><span class="speaker">${content?.type &&
      content.type !== "text" ? plain(String(content.type)).slice(0, 40) : words}</span><${isTaken ?
      "del" : "div"} class="said-text"><${Said} text=${text.slice(0, MOST_SAID)} keep=${"\n\t"} />
      ${text.length > MOST_SAID ? html`<span class="dim"> … ${many(text.length - MOST_SAID,
      "more letter")}</span>` : ""}<//></div>`;
  };
  return html`<li class=${isAfter ? "turn after" : "turn"}>
    <p class="turn-line dim"><span>${turn.turn_number}</span><${Moment} at=${turn.created_at} short />
      ${turn.version_after !== turn.version_before && html`<span>made version ${turn.version_after}
      </span>`}</p>
    ${side("in", turn.input)}${side("out", turn.output)}
    ${turn.reasoning && html`<details><summary>Why</summary><p class="said-text"><${Said}
      text=${turn.reasoning.slice(0, MOST_SAID)} keep=${"\n"} /></p></details>`}
  </li>`;
}
