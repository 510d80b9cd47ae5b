/** The catalogue of models as a picker shows it. */
import { type Model, ModelAvailability } from "@netaclaw/client/gen/netaclaw/model/v1/model_pb";

export type ModelState = "ready" | "keyMissing" | "notInstalled" | "unavailable" | "unknown";

/** Whether a model can be asked; `unknown`: the catalogue does not have it. */
export function stateOf(model: Model | undefined): ModelState {
  switch (model?.availability) {
    case undefined:
      return "unknown";
    case ModelAvailability.AVAILABLE:
      return "ready";
    case ModelAvailability.KEY_MISSING:
      return "keyMissing";
    case ModelAvailability.NOT_INSTALLED:
      return "notInstalled";
    default:
      return "unavailable";
  }
}

export interface ModelOption {
  readonly name: string;
  readonly state: ModelState;
}

/** What can be chosen: the catalogue, and before it what is chosen or stored and is not in it (any more). */
export function optionsOf(models: readonly Model[], ...kept: readonly string[]): ModelOption[] {
  const names = new Set(models.map(({ name }) => name));
  const gone = [...new Set(kept)].filter((name) => name && !names.has(name));
  return [
    ...gone.map((name) => ({ name, state: "unknown" as const })),
    ...models.map((model) => ({ name: model.name, state: stateOf(model) })),
  ];
}

/** The model that answers: the one of that name, the default for an empty one. */
export const chosenOf = (models: readonly Model[], name: string): Model | undefined =>
  models.find((model) => (name ? model.name === name : model.isDefault));
