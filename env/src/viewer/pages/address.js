// The address holds what the reader looks at, so that reload, back and links work.

/** What the address asks for, without what is empty. */
export function asked() {
  const parameters = new URLSearchParams(location.search);
  return Object.fromEntries([...parameters].filter(([, value]) => value));
}

/** The address with some of it changed; null removes. */
export function address(what) {
  const merged = Object.entries({ ...asked(), ...what }).filter(([, value]) => value !== null && value !== "");
  return `?${new URLSearchParams(merged)}`;
}

/** The attributes of a link that changes what is asked for. One that `replaces` leaves no trace for the way back. */
export const change = (what, replaces = false) =>
  ({ href: address(what), "data-change": JSON.stringify(what), "data-replaces": replaces });
