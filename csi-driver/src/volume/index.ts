export { checkCapabilities, type Usage, usageOf } from './capabilities.ts';
export {
  checkClusterName,
  chosenBy,
  chosenByPod,
  type DatasetChoice,
  isInline,
  registeredName,
} from './dataset_choice.ts';
