/** The address of the worker that holds the one stream of all tabs; see build-plugins.ts. */
declare module "virtual:feed-worker" {
  const url: string;
  export default url;
}
