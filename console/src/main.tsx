// The page: the login, then a frame around the views.
import { render, type ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { coloursChanged } from "./chart";
import { Samples } from "./samples";
import { Session, type About } from "./session";
import { Store, useEvery, useLoaded, useStore } from "./store";
import { Button, Check, Choice, Failure, Field, Notices, Questions, attempt } from "./ui";
import { Clients } from "./views/clients";
import { Configuration } from "./views/configuration";
import { Functions } from "./views/functions";
import { Keys } from "./views/keys";
import { Live } from "./views/live";
import { Overview } from "./views/overview";
import { Saves } from "./views/saves";
import { Latency, SlowLog } from "./views/slow";
import { Users } from "./views/users";
import { Workbench } from "./views/workbench";
import "./style.css";

interface View {
  path: string;
  name: string;
  /** What the user must be allowed for the view to make sense. */
  needs: string[];
  show: (session: Session, samples: Samples) => ComponentChildren;
}

const VIEWS: View[] = [
  {
    path: "overview",
    name: "Overview",
    needs: ["info"],
    show: (_, samples) => <Overview samples={samples} />,
  },
  { path: "keys", name: "Keys", needs: ["tree", "scan"], show: (session) => <Keys session={session} /> },
  { path: "workbench", name: "Workbench", needs: [], show: (session) => <Workbench session={session} /> },
  { path: "live", name: "Live", needs: ["subscribe"], show: (session) => <Live session={session} /> },
  {
    path: "slow-log",
    name: "Slow log",
    needs: ["slowlog"],
    show: (session) => <SlowLog session={session} />,
  },
  { path: "latency", name: "Latency", needs: ["latency"], show: (session) => <Latency session={session} /> },
  { path: "clients", name: "Clients", needs: ["clients"], show: (session) => <Clients session={session} /> },
  {
    path: "configuration",
    name: "Configuration",
    needs: ["config"],
    show: (session) => <Configuration session={session} />,
  },
  { path: "users", name: "Users", needs: ["users"], show: (session) => <Users session={session} /> },
  {
    path: "functions",
    name: "Functions",
    needs: ["functions"],
    show: (session) => <Functions session={session} />,
  },
  { path: "saves", name: "Saves", needs: ["info"], show: (session) => <Saves session={session} /> },
];

const theme = new Store(localStorage.getItem("console.theme") ?? "");

function applyTheme(): void {
  if (theme.value === "") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  coloursChanged.set(coloursChanged.value + 1);
}

function switchTheme(): void {
  const isDark =
    theme.value === "" ? matchMedia("(prefers-color-scheme: dark)").matches : theme.value === "dark";
  theme.set(isDark ? "light" : "dark");
  localStorage.setItem("console.theme", theme.value);
  applyTheme();
}

function place(): string {
  return decodeURIComponent(location.hash.replace(/^#\/?/, "").split("/")[0] ?? "");
}

function App(props: { about: About }) {
  const [session, setSession] = useState<Session | null>(null);
  const [refusal, setRefusal] = useState<string | null>(null);
  const logIn = (user: string, password: string) => {
    const opened = new Session({ user, password }, props.about);
    opened.main.onReady = () => {
      opened.main.onReady = () => {};
      void opened.learn().then(() => setSession(opened));
    };
    opened.main.onState = () => {
      opened.changed.set(opened.changed.value + 1);
      const { state, refusal: reason } = opened.main;
      if (state === "refused") {
        opened.close();
        setSession(null);
        setRefusal(user === "" && reason.startsWith("NOAUTH") ? "" : reason);
      } else if (state === "lost" && opened.user === "") {
        setRefusal("The server can not be reached. Trying again…");
      }
    };
    opened.main.open();
  };
  useEffect(() => logIn("", ""), []);
  if (session !== null) {
    return (
      <Frame
        session={session}
        onLeave={() => {
          session.close();
          setSession(null);
          setRefusal("");
        }}
      />
    );
  }
  if (refusal === null)
    return (
      <main class="login">
        <h1>Mantissa console</h1>
        <p>Connecting…</p>
      </main>
    );
  return <LogIn about={props.about} refusal={refusal} onLogIn={logIn} />;
}

function LogIn(props: { about: About; refusal: string; onLogIn: (user: string, password: string) => void }) {
  const [user, setUser] = useState("default");
  const [password, setPassword] = useState("");
  return (
    <main class="login">
      <Label about={props.about} />
      <h1>Mantissa console</h1>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          props.onLogIn(user, password);
        }}
      >
        <Field label="User" value={user} onInput={setUser} autocomplete="username" />
        <Field
          label="Password"
          value={password}
          onInput={setPassword}
          type="password"
          autocomplete="current-password"
        />
        <Failure text={props.refusal} />
        <Button submit kind="main">
          Log in
        </Button>
      </form>
    </main>
  );
}

function Label(props: { about: About }) {
  return props.about.label === "" ? null : (
    <p class="label" role="note">
      {props.about.label}
    </p>
  );
}

function Frame(props: { session: Session; onLeave: () => void }) {
  const { session } = props;
  const [samples] = useState(() => new Samples(session));
  const [path, setPath] = useState(place());
  const readOnly = useStore(session.readOnly);
  useStore(session.changed);
  useLayoutEffect(() => {
    const go = () => setPath(place());
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  useEvery(2000, () => session.may("info") && void samples.take(), [session]);
  const views = VIEWS.filter(
    (view) => view.needs.length === 0 || view.needs.some((deed) => session.may(deed)),
  );
  const view = views.find((it) => it.path === path) ?? views[0];
  useEffect(() => {
    document.title = `${view?.name ?? ""} – Mantissa console`;
  }, [view]);
  return (
    <>
      <a
        class="skip"
        href="#content"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("content")?.focus();
        }}
      >
        Skip to the content
      </a>
      <header class="top">
        <Label about={session.about} />
        <Lost session={session} />
        <div class="bar">
          <strong>Mantissa</strong>
          <span class="who" title="The user">
            {session.user}
          </span>
          <Databases session={session} />
          <Check label="Read only" value={readOnly} onChange={(on) => session.setReadOnly(on)} />
          <Button kind="quiet" label="Light or dark" onClick={switchTheme}>
            ◐
          </Button>
          <Button kind="quiet" onClick={props.onLeave}>
            Log out
          </Button>
        </div>
      </header>
      <div class="body">
        <nav aria-label="Views">
          {views.map((it) => (
            <a href={`#/${it.path}`} aria-current={it === view ? "page" : undefined}>
              {it.name}
            </a>
          ))}
        </nav>
        <main id="content" tabIndex={0} key={view?.path}>
          {view ? view.show(session, samples) : <p class="empty">This user may not do anything here.</p>}
        </main>
      </div>
      <Questions />
      <Notices />
    </>
  );
}

function Databases(props: { session: Session }) {
  const { session } = props;
  const number = useLoaded(() => session.databases(), [session]).value ?? 1;
  const database = useStore(session.database);
  const options = Array.from({ length: number }, (_, at) => [String(at), `db${at}`] as const);
  return (
    <Choice
      label="Database"
      hidden
      value={String(database)}
      options={options}
      onChange={(value) => void attempt(() => session.select(Number(value)))}
    />
  );
}

function Lost(props: { session: Session }) {
  if (props.session.main.state === "ready") return null;
  return (
    <p class="lost" role="alert">
      The connection to the server is lost. Trying again…
      <Button onClick={() => props.session.main.retry()}>Now</Button>
    </p>
  );
}

async function start(): Promise<void> {
  applyTheme();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
  const about = await fetch("/console/about.json")
    .then((answer) => answer.json())
    .catch(() => ({ label: "" }));
  render(<App about={about as About} />, document.getElementById("root")!);
}

void start();
